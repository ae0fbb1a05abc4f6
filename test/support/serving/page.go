package serving

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pageTime is the timeout of a request.
const pageTime = 30 * time.Second

// Page requests a page with GET. A status other than 200 is an error that contains the status and
// the body. It leaves no connection open.
func Page(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pageTime)
	defer cancel()
	return Ask(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, url)
}

// Ask is Page with a client of the test's own, bounded by ctx and by the client.
func Ask(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", request.URL.RequestURI(), answer.Status, body)
	}
	return string(body), err
}
