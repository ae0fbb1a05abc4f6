package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
)

// Client queries a Prometheus server.
type Client struct {
	// URL is the address of the server, HTTP reaches it.
	URL  string
	HTTP *http.Client
}

// Get requests a path of the API, such as "/rules", and decodes the data of the answer. It returns an
// error with the server's reason if the request fails.
func (c Client) Get(ctx context.Context, path string, parameters url.Values, data any) error {
	target := c.URL + "/api/v1" + path + "?" + parameters.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// Query evaluates an expression now and returns the number of its series with a value: NaN, the
// quantile of no observations, does not count.
func (c Client) Query(ctx context.Context, expr string) (series int, err error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := c.Get(ctx, "/query", url.Values{"query": {expr}}, &data); err != nil {
		return 0, fmt.Errorf("%s: %w", expr, err)
	}
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			series++
		}
	}
	return series, nil
}
