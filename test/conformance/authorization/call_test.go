package authorization

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

const (
	idHeader = "x-case-id"
	// seenHeader has the names of forged headers that the application saw.
	seenHeader = "x-seen"
	// callTime bounds a call.
	callTime = 10 * time.Second
)

// outcome is what really became of a call.
type outcome struct {
	status int // 0: no HTTP
	grpc   string
	body   string
	seen   string
	// ended is the reason for a missing answer.
	ended error
	// caller contains source and destination address, which identify connections without HTTP in
	// access logs.
	caller string
}

func (o outcome) String() string {
	if o.ended != nil {
		return "ended: " + o.ended.Error()
	}
	return fmt.Sprintf("%d %s %q", o.status, o.grpc, o.body)
}

// verdict returns an outcome in the syntax of expectations.
func (o outcome) verdict() string {
	switch {
	case o.ended != nil:
		return "closed"
	case o.status == http.StatusForbidden, o.grpc == "7":
		return "deny"
	case o.status == http.StatusUnauthorized:
		return "unauthenticated"
	case o.status == http.StatusBadRequest:
		return "bad"
	case o.status == http.StatusOK, o.status == 0:
		return "allow"
	default:
		return fmt.Sprint(o.status)
	}
}

// do makes a call.
func (c *testCase) do(ctx context.Context, t testing.TB, authority *secrets, tokens *tokens) outcome {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	w, port := c.target(t)
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from(), 0))}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(w.Address, port).String())
	if err != nil {
		return outcome{ended: err}
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	caller := conn.LocalAddr().String() + ">" + conn.RemoteAddr().String()
	if c.encrypted() {
		secure := tls.Client(conn, authority.client(t, c))
		if err := secure.HandshakeContext(ctx); err != nil {
			return outcome{ended: err}
		}
		conn = secure
	}
	var o outcome
	switch {
	case c.Call == "":
		o = sendBytes(conn)
	case c.HTTP2 || c.GRPC:
		o = c.http2(ctx, conn, tokens)
	default:
		o = c.http1(conn, tokens)
	}
	o.caller = caller
	return o
}

// sendBytes sends a line and waits for its echo.
func sendBytes(conn net.Conn) outcome {
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return outcome{ended: err}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return outcome{body: line, ended: err}
}

// http1 writes a request byte by byte as the case defines it, which HTTP libraries refuse.
func (c *testCase) http1(conn net.Conn, tokens *tokens) outcome {
	method, path, host := c.request()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for _, line := range c.lines(tokens) {
		fmt.Fprintf(&b, "%s\r\n", line)
	}
	b.WriteString("\r\n")
	if _, err := conn.Write(b.Bytes()); err != nil {
		return outcome{ended: err}
	}
	return read(http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method}))
}

func (c *testCase) http2(ctx context.Context, conn net.Conn, tokens *tokens) outcome {
	method, path, host := c.request()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // with prior knowledge, in what may well be TLS
	client := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	defer client.CloseIdleConnections()
	req := (&http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: host, Opaque: path}, Host: host, Header: http.Header{}}).WithContext(ctx)
	for _, line := range c.lines(tokens) {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	return read(client.RoundTrip(req))
}

func read(resp *http.Response, err error) outcome {
	if err != nil {
		return outcome{ended: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return outcome{status: resp.StatusCode, grpc: resp.Header.Get("Grpc-Status"), body: string(body), seen: resp.Header.Get(seenHeader), ended: err}
}
