package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// Protocol is how the client calls the service.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "HTTP/1.1"
	HTTP2 Protocol = "HTTP/2"
	GRPC  Protocol = "gRPC"
	TCP   Protocol = "TCP"
)

// Protocols returns all protocols.
func Protocols() []Protocol { return []Protocol{HTTP1, HTTP2, GRPC, TCP} }

func (p Protocol) port() int {
	return map[Protocol]int{HTTP1: httpPort, HTTP2: http2Port, GRPC: grpcPort, TCP: tcpPort}[p]
}

// transport is a client of one protocol.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// newTransport returns a client that connects from a network node, and keeps connections open.
func (p Protocol) newTransport(n *netns.Node) transport {
	if p == TCP {
		return &tcpClient{dial: n.Dial}
	}
	t := &http.Transport{DialContext: n.Dial, MaxIdleConnsPerHost: maxWorkers, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(p == HTTP1)
	t.Protocols.SetUnencryptedHTTP2(p != HTTP1)
	if p == GRPC {
		return grpcClient{t}
	}
	return t
}

// target returns the request that is repeated.
func (p Protocol) target() vegeta.Target {
	t := vegeta.Target{
		Method: http.MethodGet, URL: "http://" + net.JoinHostPort(serviceAddress.String(), strconv.Itoa(p.port())) + "/",
		Header: http.Header{"Host": {serviceHost}},
	}
	switch p {
	case GRPC:
		t.Method, t.URL, t.Body = http.MethodPost, t.URL+"bench.Echo/Say", []byte(grpcMessage)
		t.Header.Set("Content-Type", "application/grpc")
		t.Header.Set("Te", "trailers")
	case TCP:
		t.Method, t.Body = http.MethodPost, bytes.Repeat([]byte{'x'}, bodySize)
	}
	return t
}

// grpcClient makes calls over HTTP/2 whose status other than OK is an error.
type grpcClient struct{ *http.Transport }

func (c grpcClient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body) // trailers follow the body
	if err != nil {
		return nil, err
	}
	status := answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status")
	if status != "0" || string(body) != grpcMessage {
		return nil, fmt.Errorf("gRPC status %q, %d bytes", status, len(body))
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// tcpClient sends the body of a request over a connection of its own, and receives as many bytes.
type tcpClient struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	idle []net.Conn
}

// RoundTrip returns a response without a body if all bytes came back.
func (c *tcpClient) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := c.connection(r.Context(), r.URL.Host)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = conn.Write(body)
	}
	if err == nil {
		got := make([]byte, len(body))
		if _, err = io.ReadFull(conn, got); err == nil && !bytes.Equal(got, body) {
			err = errors.New("other bytes came back")
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.mu.Lock()
	c.idle = append(c.idle, conn)
	c.mu.Unlock()
	return &http.Response{
		StatusCode: http.StatusOK,
		Status:     "200 OK",
		Request:    r,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader("")),
	}, nil
}

// connection returns an idle connection, or a new one.
func (c *tcpClient) connection(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	return c.dial(ctx, "tcp", address)
}

// CloseIdleConnections closes the connections that no request uses.
func (c *tcpClient) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		conn.Close()
	}
	c.idle = nil
}
