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

// maxAnswer bounds what is read of an admin answer: a config dump of ten thousand clusters is about 100 MB.
const maxAnswer = 512 << 20

// Admin asks Envoy's admin interface.
type Admin struct {
	base   string
	client *http.Client
}

// NewAdmin gives a client of the admin interface at that address. Timeouts are those of the contexts.
func NewAdmin(address netip.AddrPort) *Admin {
	// The environment's HTTP_PROXY must not come between the agent and its own Envoy.
	// Nor must a connection that is kept lead to an Envoy that another one has replaced.
	return &Admin{base: "http://" + address.String(), client: &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}}
}

// Close gives up idle connections.
func (a *Admin) Close() { a.client.CloseIdleConnections() }

// Do makes a request and gives the answer's body. An answer other than 200 is an error with the body's first line.
func (a *Admin) Do(ctx context.Context, method, path, body string) ([]byte, error) {
	resource, _, _ := strings.Cut(path, "?") // a query is no reading matter
	text, err := a.do(ctx, method, path, body)
	if err != nil {
		return text, fmt.Errorf("ask envoy %s %s: %w", method, resource, err)
	}
	return text, nil
}

func (a *Admin) do(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(request)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err // it says method and URL once more
		}
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		first, _, _ := strings.Cut(string(text), "\n")
		return text, fmt.Errorf("%s: %s", answer.Status, first)
	}
	return text, nil
}

// State gives Envoy's own word for how far it is, as of GET /ready: LIVE, DRAINING, PRE_INITIALIZING, INITIALIZING.
func (a *Admin) State(ctx context.Context) (string, error) {
	text, err := a.Do(ctx, http.MethodGet, "/ready", "")
	state := strings.TrimSpace(string(text))
	if err != nil && (state == "" || state != strings.ToUpper(state)) { // a 503 has the state in it all the same
		return "", err
	}
	return state, nil
}

// Epoch gives which of several Envoys that replace each other answers.
func (a *Admin) Epoch(ctx context.Context) (int, error) {
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
		return 0, fmt.Errorf("ask envoy GET /server_info: %w", err)
	}
	return info.Options.Epoch, nil
}

// Stats gives the counters and gauges whose names match the regular expression and that were ever set.
func (a *Admin) Stats(ctx context.Context, filter string) (map[string]uint64, error) {
	return a.stats(ctx, url.Values{"filter": {filter}, "usedonly": {""}})
}

func (a *Admin) stats(ctx context.Context, query url.Values) (map[string]uint64, error) {
	text, err := a.Do(ctx, http.MethodGet, "/stats?"+query.Encode(), "")
	if err != nil {
		return nil, err
	}
	stats := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
		// Histograms and text readouts are not numbers, and not asked for.
		if value, err := strconv.ParseUint(number, 10, 64); err == nil {
			stats[name] = value
		}
	}
	return stats, nil
}

// Prometheus gives all statistics in Prometheus's text format.
func (a *Admin) Prometheus(ctx context.Context) ([]byte, error) {
	return a.Do(ctx, http.MethodGet, "/stats/prometheus", "")
}

// Drain makes Envoy tell its clients to go elsewhere: connection: close on HTTP/1.1, GOAWAY on HTTP/2. Requests under
// way and new connections are still served (skip_exit), since other hosts learn late that this one is leaving. With
// inboundOnly it keeps its outbound listeners as they are: the requests under way may need them.
func (a *Admin) Drain(ctx context.Context, inboundOnly bool) error {
	path := "/drain_listeners?graceful&skip_exit"
	if inboundOnly {
		path += "&inboundonly"
	}
	_, err := a.Do(ctx, http.MethodPost, path, "")
	return err
}
