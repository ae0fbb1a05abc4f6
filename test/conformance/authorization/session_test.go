package authorization

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

// session is a connection that carries many requests, one after the other.
type session struct {
	conn   net.Conn
	caller string
	reader *bufio.Reader
	// http2 sends the requests of an HTTP/2 session; nil in one of HTTP/1.1 or raw bytes.
	http2 *http.ClientConn
}

// open connects as a case does.
func (c *testCase) open(ctx context.Context, t testing.TB, authority *secrets) (*session, error) {
	w, port := c.target(t)
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from(), 0)), Timeout: callTime}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(w.Address, port).String())
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, caller: conn.LocalAddr().String() + ">" + conn.RemoteAddr().String()}
	if c.encrypted() {
		secure := tls.Client(conn, authority.client(t, c))
		_ = conn.SetDeadline(time.Now().Add(callTime))
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		_ = conn.SetDeadline(time.Time{})
		s.conn = secure
	}
	s.reader = bufio.NewReader(s.conn)
	if c.HTTP2 {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true) // with prior knowledge, in what may well be TLS
		transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return s.conn, nil }}
		// One connection by construction: the transport's own pool dials again if a second request comes before the
		// connection of the first one is in the pool.
		if s.http2, err = transport.NewClientConn(ctx, "http", "session:80"); err != nil {
			s.conn.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *session) close() {
	if s.http2 != nil {
		s.http2.Close()
	}
	s.conn.Close()
}

// send makes the request of a case, or exchanges bytes. usable reports whether the session takes more requests.
func (s *session) send(ctx context.Context, c *testCase, tokens *tokens) (o outcome, usable bool) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if s.http2 == nil {
		_ = s.conn.SetDeadline(time.Now().Add(callTime))
	}
	switch {
	case c.Call == "":
		o = sendBytes(s.conn)
	case c.HTTP2:
		o = s.requestHTTP2(ctx, c, tokens)
	default:
		o = s.requestHTTP1(c, tokens)
	}
	o.caller = s.caller
	return o, c.Call != "" && o.ended == nil && o.status != http.StatusBadRequest
}

func (s *session) requestHTTP1(c *testCase, tokens *tokens) outcome {
	method, path, host := c.request()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for _, line := range c.lines(tokens) {
		fmt.Fprintf(&b, "%s\r\n", line)
	}
	if method == http.MethodPost || method == http.MethodPut {
		b.WriteString("content-length: 0\r\n")
	}
	b.WriteString("\r\n")
	if _, err := s.conn.Write(b.Bytes()); err != nil {
		return outcome{ended: err}
	}
	return read(http.ReadResponse(s.reader, &http.Request{Method: method}))
}

func (s *session) requestHTTP2(ctx context.Context, c *testCase, tokens *tokens) outcome {
	method, path, host := c.request()
	req := (&http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "session", Opaque: path}, Host: host, Header: http.Header{}}).WithContext(ctx)
	for _, line := range c.lines(tokens) {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	return read(s.http2.RoundTrip(req))
}
