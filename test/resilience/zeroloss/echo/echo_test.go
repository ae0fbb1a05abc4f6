package echo

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"
)

func start(t *testing.T) (*Server, Ports) {
	t.Helper()
	var ports Ports
	for _, p := range []*int{&ports.HTTP, &ports.HTTP2, &ports.GRPC, &ports.TCP} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*p = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	s, err := NewServer(Options{Version: "v1", Ports: []Ports{ports}, Listen: func(network, address string) (net.Listener, error) {
		return net.Listen(network, "127.0.0.1"+address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, ports
}

// dialTLS wraps a connection in TLS, as a sidecar does for its client.
func dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil
}

func TestEveryKindInPlainTextAndTLS(t *testing.T) {
	_, ports := start(t)
	for _, kind := range Kinds() {
		for encrypted, dial := range map[bool]Dial{false: new(net.Dialer).DialContext, true: dialTLS} {
			t.Run(fmt.Sprintf("%s tls=%t", kind, encrypted), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				c := NewCaller(kind, dial, "127.0.0.1", ports)
				defer c.Close()
				for i := range 3 {
					id := fmt.Sprint("id-", i)
					got, err := c.Call(ctx, id)
					if want := (Reply{ID: id, Version: "v1", Addr: "127.0.0.1", TLS: encrypted, HTTP: kind != TCP && kind != TCPOpen}); err != nil || got != want {
						t.Fatalf("got %+v, %v; want %+v", got, err, want)
					}
				}
			})
		}
	}
}

// A caller that reconnected silently, or did not notice the end of its connection, would prove
// nothing.
func TestEveryKindDetectsALostServer(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			s, ports := start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c := NewCaller(kind, new(net.Dialer).DialContext, "127.0.0.1", ports)
			defer c.Close()
			if _, err := c.Call(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err := c.Call(ctx, "b"); err == nil {
				t.Errorf("without a server: %+v", r)
			}
		})
	}
}
