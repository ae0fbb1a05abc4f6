package gatewayenv

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// StartBackend starts an HTTP server on 127.0.0.1 that answers with a text until the test ends. It returns
// the server's port.
func StartBackend(t testing.TB, text string) (port int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		t.Fatal(err)
	}
	return port
}

// get returns the text of an answer with status 200, over a connection of its own.
func get(t testing.TB, address string) (string, error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// AwaitAnswers waits until of 20 requests in a row all are answered, by all of these texts and no other one.
func AwaitAnswers(t testing.TB, address string, texts ...string) {
	t.Helper()
	serving.Eventually(t, 2*settleTime, fmt.Sprintf("%v answer", texts), func() error {
		seen := map[string]bool{}
		for range 20 {
			answer, err := get(t, address)
			if err != nil {
				return err
			}
			seen[answer] = true
		}
		for _, text := range texts {
			if !seen[text] {
				return fmt.Errorf("%v answered", seen)
			}
		}
		if len(seen) != len(texts) {
			return fmt.Errorf("%v answered", seen)
		}
		return nil
	})
}

// StartLoad sends a request every 50 ms until requireNone is called, which fails the test if a request
// failed or there were fewer than 20.
func StartLoad(t testing.TB, address string) (requireNone func()) {
	t.Helper()
	var failures []error
	n, end, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
			n++
			if _, err := get(t, address); err != nil {
				failures = append(failures, err)
			}
		}
	}()
	stop := sync.OnceFunc(func() { close(end); <-done })
	t.Cleanup(stop)
	return func() {
		t.Helper()
		stop()
		t.Logf("%d requests, %d failed", n, len(failures))
		if len(failures) > 0 || n < 20 {
			t.Errorf("%d of %d requests failed: %v", len(failures), n, errors.Join(failures...))
		}
	}
}

// EdgeYAML returns a Gateway at a port, and the route of all requests to port 80 of a host.
func EdgeYAML(port int, host string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: %d, name: http, protocol: HTTP}
    hosts: ["*"]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: istio-system}
spec:
  hosts: ["*"]
  gateways: [edge]
  http:
  - route:
    - destination: {host: %s, port: {number: 80}}
`, port, host)
}

// AwaitPlatformMetric waits until a metric of a platform has this value: "synced", "problems".
func (e *Edge) AwaitPlatformMetric(platform, name string, want int) {
	e.t.Helper()
	line := fmt.Sprintf("meshpilot_platform_%s{platform=%q} %d\n", name, platform, want)
	serving.Eventually(e.t, 2*settleTime, line, func() error {
		page, err := serving.Page("http://" + e.Pages + "/metrics")
		if err == nil && !strings.Contains(page, line) {
			err = errors.New("another value")
		}
		return err
	})
}
