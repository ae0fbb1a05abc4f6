package echo

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

type httpCaller struct {
	url       string
	close     bool
	transport *http.Transport
}

func newHTTPCaller(kind Kind, dial Dial, host string, port int) *httpCaller {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(kind != HTTP2)
	protocols.SetUnencryptedHTTP2(kind == HTTP2)
	return &httpCaller{
		url: fmt.Sprintf("http://%s:%d/", host, port), close: kind == HTTPClose,
		transport: &http.Transport{DialContext: dial, Protocols: protocols, MaxIdleConnsPerHost: 1},
	}
}

// emptyBody is an empty body that cannot be sent again. Without a body the transport would treat a
// GET as repeatable and silently retry it when its connection breaks, so that a lost request would
// not be seen.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

func (c *httpCaller) Call(ctx context.Context, id string) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, emptyBody{})
	if err != nil {
		return Reply{}, err
	}
	req.Close = c.close
	req.Header.Set(idHeader, id)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return Reply{}, fmt.Errorf("status %d, then: %w", resp.StatusCode, err)
	}
	if resp.StatusCode != http.StatusOK {
		return Reply{}, fmt.Errorf("status %d: %.120q", resp.StatusCode, body)
	}
	r, err := parseReply(string(body), id)
	r.HTTP, r.Generation = true, resp.Header.Get(generationHeader)
	return r, err
}

func (c *httpCaller) Close() { c.transport.CloseIdleConnections() }
