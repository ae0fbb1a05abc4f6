package routing

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

const (
	// callTime is the timeout of a call.
	callTime = 10 * time.Second
	// silenceTime is how long a test waits before it concludes that no answer is sent.
	silenceTime = 1500 * time.Millisecond
)

// outcome is the result of one call.
type outcome struct {
	id string
	// status is 0 without HTTP.
	status int
	header http.Header
	body   string
	// seen is the request that the backend received, or nil if the proxy answered.
	seen *backend.Sighting
	// ends is "closed", "waiting" or "refused" without an answer; detail is the error.
	ends, detail string
	took         time.Duration
	// client is the caller's own address, which identifies connections without HTTP in access logs.
	client string
}

// String returns the outcome in one line.
func (o outcome) String() string {
	switch {
	case o.seen != nil:
		return fmt.Sprintf("%d by %s, which saw %s %s of %s", o.status, o.seen.Instance, o.seen.Method, o.seen.Path, o.seen.Authority)
	case o.ends != "":
		return o.ends + ": " + o.detail
	default:
		return fmt.Sprintf("%d %.100q %v", o.status, o.body, o.header)
	}
}

// caller makes the calls of one case, over connections of its own.
type caller struct {
	node *netns.Node
	call explain.Call
	c    *table.Case
	http *http.Transport
	last string // the local address of the last connection
}

func newCaller(node *netns.Node, c *table.Case, call explain.Call) *caller {
	k := &caller{node: node, call: call, c: c}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(c.Protocol != string(explain.HTTP2))
	protocols.SetUnencryptedHTTP2(c.Protocol == string(explain.HTTP2))
	k.http = &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return k.dial(ctx) },
	}
	if c.Absolute {
		k.http.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: call.To.String()})
	}
	if call.Carries == explain.TLS {
		protocols.SetHTTP2(call.ALPN != nil && call.ALPN[0] == "h2")
		k.http.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return k.dialTLS(ctx) }
	}
	return k
}

// dialTLS connects and performs the handshake, without verification of the server.
func (k *caller) dialTLS(ctx context.Context) (net.Conn, error) {
	conn, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: k.call.ServerName, InsecureSkipVerify: true, NextProtos: k.call.ALPN})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func (k *caller) close() { k.http.CloseIdleConnections() }

func (k *caller) dial(ctx context.Context) (net.Conn, error) {
	conn, err := k.node.Dial(ctx, "tcp", k.call.To.String())
	if err == nil {
		k.last = conn.LocalAddr().String()
	}
	return conn, err
}

// do makes the call once.
func (k *caller) do(ctx context.Context, id string) outcome {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	begin := time.Now()
	var o outcome
	switch {
	case k.call.Request == nil:
		o = k.bytes(ctx, id)
	case k.c.Protocol == string(explain.HTTP10):
		o = k.http10(ctx, id)
	default:
		o = k.request(ctx, id)
	}
	o.id, o.took, o.client = id, time.Since(begin), k.last
	return o
}

// emptyBody is an empty body that cannot be sent again, see test/resilience/zeroloss/echo.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

func (k *caller) request(ctx context.Context, id string) outcome {
	r := k.call.Request
	path, query, _ := strings.Cut(r.Path, "?")
	scheme := "http"
	if k.call.Carries == explain.TLS {
		scheme = "https"
	}
	u := &url.URL{Scheme: scheme, Host: r.Authority, Opaque: path, RawQuery: query}
	if k.c.Absolute || strings.HasPrefix(path, "//") { // an opaque URL that begins so would be parsed as a host
		u.Opaque, u.Path, u.RawPath = "", path, path
	}
	req := (&http.Request{Method: r.Method, URL: u, Host: r.Authority, Header: http.Header{}, Body: emptyBody{}}).WithContext(ctx)
	for _, h := range r.Header {
		req.Header.Add(h.Name, h.Value)
	}
	req.Header.Set(idHeader, id)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "behaviour")
	}
	resp, err := k.http.RoundTrip(req)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return switched(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken(err)
	}
	o := outcome{status: resp.StatusCode, header: resp.Header, body: string(body)}
	for name, values := range resp.Trailer {
		o.header[name] = values
	}
	return o.withSighting()
}

// withSighting reads the request that the backend received, from the body, or from a header of
// gRPC.
func (o outcome) withSighting() outcome {
	text := o.body
	if x := o.header.Get("X-Seen"); x != "" {
		text = x
	}
	seen := new(backend.Sighting)
	if json.Unmarshal([]byte(text), seen) == nil && seen.Instance != "" {
		o.seen = seen
	}
	return o
}

// switched talks over a connection that has become a websocket.
func switched(resp *http.Response) outcome {
	o := outcome{status: resp.StatusCode, header: resp.Header}
	both, ok := resp.Body.(io.ReadWriter)
	if !ok {
		return broken(errors.New("the connection cannot be written to"))
	}
	if _, err := io.WriteString(both, "what did you see?\n"); err != nil {
		return broken(err)
	}
	line, err := bufio.NewReader(both).ReadString('\n')
	if err != nil {
		return broken(err)
	}
	o.body = line
	return o.withSighting()
}

// http10 sends a request of HTTP/1.0, which Go's client does not.
func (k *caller) http10(ctx context.Context, id string) outcome {
	conn, err := k.dial(ctx)
	if err != nil {
		return broken(err)
	}
	defer conn.Close()
	limit(ctx, conn)
	r := k.call.Request
	fmt.Fprintf(conn, "%s %s HTTP/1.0\r\nHost: %s\r\n%s: %s\r\n", r.Method, r.Path, r.Authority, idHeader, id)
	for _, h := range r.Header {
		if !strings.EqualFold(h.Name, idHeader) {
			fmt.Fprintf(conn, "%s: %s\r\n", h.Name, h.Value)
		}
	}
	fmt.Fprint(conn, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken(err)
	}
	return outcome{status: resp.StatusCode, header: resp.Header, body: string(body)}.withSighting()
}

func limit(ctx context.Context, conn net.Conn) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
}

// bytes makes a call without plain-text HTTP: a line, a TLS handshake and then a line, or nothing.
func (k *caller) bytes(ctx context.Context, id string) outcome {
	if k.c.Expect.Ends == string(explain.Waiting) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silenceTime)
		defer cancel()
	}
	conn, err := k.dial(ctx)
	if err != nil {
		return broken(err)
	}
	defer conn.Close()
	limit(ctx, conn)
	if k.call.Carries == explain.TLS {
		secure := tls.Client(conn, &tls.Config{ServerName: k.call.ServerName, InsecureSkipVerify: true, NextProtos: k.call.ALPN})
		if err := secure.HandshakeContext(ctx); err != nil {
			return broken(err)
		}
		conn = secure
	}
	if k.call.Carries != explain.Silence {
		if _, err := io.WriteString(conn, id+"\n"); err != nil {
			return broken(err)
		}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return broken(err)
	}
	o := outcome{body: line, header: http.Header{}}.withSighting()
	if greeting, ok := strings.CutPrefix(strings.TrimSpace(line), "hello from "); ok {
		o.seen = &backend.Sighting{Instance: greeting}
	}
	return o
}

// broken is an outcome without an answer.
func broken(err error) outcome {
	o := outcome{ends: "closed", detail: err.Error()}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		o.ends = "waiting"
	case strings.Contains(err.Error(), "connection refused"):
		o.ends = "refused"
	}
	return o
}
