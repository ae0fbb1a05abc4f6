package listener

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestStreamMemory keeps streams open at inbound ports and reads from Envoy how much it has
// allocated for them. A route with a retry policy buffers the body of each stream, up to the buffer
// limit of 1 MiB, while the stream is open. No gRPC stream is buffered, whatever the port declares,
// and no stream at a port that is declared as HTTP/2.
func TestStreamMemory(t *testing.T) {
	const (
		streams = 24
		sent    = 768 << 10 // for each stream: below the limit, beyond which Envoy disables the retry and frees the body
	)
	v := fixture.New(t, []byte(`
kind: Service
metadata: {name: streams}
spec:
  clusterIP: 10.96.0.1
  selector: {app: streams}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: grpc, port: 81, targetPort: 8081}
  - {name: grpc-web, port: 82, targetPort: 8082}
  - {name: http2, port: 83, targetPort: 8083}
  - {name: undeclared, port: 84, targetPort: 8084}
---
{kind: Pod, metadata: {name: client, labels: {app: streams}}, status: {podIP: 10.9.9.9, phase: Running}}
`), nil).View(fixture.Proxy(t, nil))
	for _, port := range []struct {
		name   string
		number uint16
		kind   string // content-type
		keeps  bool   // bodies are buffered, which shows that the measurement detects it
	}{
		{"http", 8080, "text/plain", true},
		{"http with gRPC", 8080, "application/grpc+proto", false},
		{"grpc", 8081, "application/grpc", false},
		{"grpc-web", 8082, "application/grpc", false},
		{"http2", 8083, "text/plain", false},
		{"undeclared", 8084, "", true},
		{"undeclared with gRPC", 8084, "application/grpc", false},
		{"of no service with gRPC", 8085, "application/grpc", false},
	} {
		t.Run(port.name, func(t *testing.T) {
			var received atomic.Int64
			s := &stage{t: t, routed: true, forwardTo: "streams", serve: func(c net.Conn) {
				defer c.Close()
				_, _ = io.Copy(counter{&received}, c)
			}}
			e := s.start(listenersOf(t, NewGenerator(), v))
			before := e.allocated(t)
			e.openStreams(t, netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), port.number), port.kind, streams, sent)
			serving.Eventually(t, patience, "the application reads all bodies", func() error {
				if n := received.Load(); n < streams*sent {
					return fmt.Errorf("%d of %d bytes", n, streams*sent)
				}
				return nil
			})
			held := (e.allocated(t) - before) / streams >> 10
			t.Logf("%d KiB held for each stream", held)
			if kept := held > sent/2>>10; kept != port.keeps {
				t.Errorf("Envoy allocated %d KiB for each stream of %d KiB: bodies buffered = %v, want %v", held, sent>>10, kept, port.keeps)
			}
		})
	}
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// openStreams opens requests of a content-type, or without one, over one HTTP/2 connection, sends
// size bytes on each, and leaves them open until the test ends.
func (e *runningEnvoy) openStreams(t *testing.T, to netip.AddrPort, contentType string, count, size int) {
	t.Helper()
	transport := &http.Transport{
		Protocols: new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return e.connect(virtualInbound, to.String())
		},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for range count {
		r, w := io.Pipe()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://streams/pkg.Service/Stream", r)
		if err != nil {
			t.Fatal(err)
		}
		if contentType != "" {
			request.Header.Set("Content-Type", contentType)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			if response, err := transport.RoundTrip(request); err == nil {
				response.Body.Close()
			}
			r.Close()
		}()
		go func() { _, _ = w.Write(make([]byte, size)) }()
	}
	t.Cleanup(func() {
		cancel()
		for range count {
			<-done
		}
		transport.CloseIdleConnections()
	})
}

// allocated returns the bytes that Envoy has allocated, by its own account.
func (e *runningEnvoy) allocated(t *testing.T) int64 {
	t.Helper()
	var memory struct{ Allocated string }
	if err := json.Unmarshal([]byte(e.admin(t, "/memory")), &memory); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(memory.Allocated, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// admin returns a page of the admin interface.
func (e *runningEnvoy) admin(t *testing.T, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(e.dir, adminSocket))
		},
	}}
	response, err := client.Get("http://admin" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
