package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxResponse bounds a response of the admin interface: a config dump of ten thousand clusters has
// about 100 MB.
const maxResponse = 512 << 20

// Admin is a client of Envoy's admin interface.
type Admin struct {
	base   string
	client *http.Client
}

// NewAdmin returns a client of the admin interface at an address. It has no timeouts of its own:
// requests end with their contexts.
func NewAdmin(address netip.AddrPort) *Admin {
	// The environment's HTTP_PROXY must not apply to the agent's own Envoy. Keepalives are
	// disabled, because a kept connection could belong to an Envoy that was replaced by hot
	// restart.
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	return &Admin{base: "http://" + address.String(), client: &http.Client{Transport: transport}}
}

// Close closes idle connections.
func (a *Admin) Close() { a.client.CloseIdleConnections() }

// Do sends a request and returns the response's body. A status other than 200 is an error with the
// body's first line; the body is returned too.
func (a *Admin) Do(ctx context.Context, method, path, body string) ([]byte, error) {
	resource, _, _ := strings.Cut(path, "?") // the query is too long for an error
	text, err := a.doRequest(ctx, method, path, body)
	if err != nil {
		return text, fmt.Errorf("envoy admin request %s %s: %w", method, resource, err)
	}
	return text, nil
}

// doRequest sends a request to the admin interface and returns the body, cut at maxResponse bytes
// without an error. Another status than 200 is an error with the first line of the body, which is
// returned too.
func (a *Admin) doRequest(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(request)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err // without method and URL, which Do adds
		}
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		first, _, _ := strings.Cut(string(text), "\n")
		return text, fmt.Errorf("%s: %s", answer.Status, first)
	}
	return text, nil
}

// ServerState returns Envoy's state from GET /ready: LIVE, DRAINING, PRE_INITIALIZING or
// INITIALIZING. It returns an error if the request fails or the response has no state. A status 503
// with a state is no error.
func (a *Admin) ServerState(ctx context.Context) (string, error) {
	text, err := a.Do(ctx, http.MethodGet, "/ready", "")
	state := strings.TrimSpace(string(text))
	if err != nil && (state == "" || state != strings.ToUpper(state)) { // a 503 contains the state too
		return "", err
	}
	return state, nil
}

// RestartEpoch returns the hot restart epoch of the Envoy that responds. It returns an error if
// none responds or the response is no JSON, and 0 if the response has no epoch.
func (a *Admin) RestartEpoch(ctx context.Context) (int, error) {
	text, err := a.Do(ctx, http.MethodGet, "/server_info", "")
	if err != nil {
		return 0, err
	}
	var info struct {
		Options struct {
			Epoch int `json:"restart_epoch"`
		} `json:"command_line_options"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return 0, fmt.Errorf("parse envoy admin response of /server_info: %w", err)
	}
	return info.Options.Epoch, nil
}

// Stats returns the counters and gauges whose names match the regular expression and that were ever
// updated. The map is empty if there are none. A failed request is an error.
func (a *Admin) Stats(ctx context.Context, filter string) (map[string]uint64, error) {
	return a.queryStats(ctx, url.Values{"filter": {filter}, "usedonly": {""}})
}

// queryStats returns the counters and gauges that the query selects. Other statistics are left out.
// A failed request is an error.
func (a *Admin) queryStats(ctx context.Context, query url.Values) (map[string]uint64, error) {
	text, err := a.Do(ctx, http.MethodGet, "/stats?"+query.Encode(), "")
	if err != nil {
		return nil, err
	}
	stats := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
		// Histograms and text readouts are not numbers and are skipped.
		if value, err := strconv.ParseUint(number, 10, 64); err == nil {
			stats[name] = value
		}
	}
	return stats, nil
}

// Prometheus returns the statistics in Prometheus's text format. query is that of Envoy's page, for
// example "usedonly" or "filter=REGEX", encoded; if empty, all statistics are returned.
func (a *Admin) Prometheus(ctx context.Context, query string) ([]byte, error) {
	path := "/stats/prometheus"
	if query != "" {
		path += "?" + query
	}
	return a.Do(ctx, http.MethodGet, path, "")
}

// DrainListeners makes Envoy ask its clients to reconnect elsewhere: "connection: close" on
// HTTP/1.1, GOAWAY on HTTP/2. Active requests and new connections are still served (skip_exit),
// because other hosts learn late that this one is leaving. With inboundOnly only inbound listeners
// are drained, because active requests may need the outbound ones.
func (a *Admin) DrainListeners(ctx context.Context, inboundOnly bool) error {
	path := "/drain_listeners?graceful&skip_exit"
	if inboundOnly {
		path += "&inboundonly"
	}
	_, err := a.Do(ctx, http.MethodPost, path, "")
	return err
}
