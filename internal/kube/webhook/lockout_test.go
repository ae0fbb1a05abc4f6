package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// attack is a client that holds a connection. It calls held once it does, and returns when the server ends the connection.
type attack func(c net.Conn, held func())

// attacks are ways to hold a connection without asking for anything.
func attacks() map[string]attack {
	drain := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	secure := func(c net.Conn) (net.Conn, bool) {
		t := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
		return t, t.Handshake() == nil
	}
	const head = "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	return map[string]attack{
		"idle": func(c net.Conn, held func()) {
			held()
			drain(c)
		},
		"half a handshake": func(c net.Conn, held func()) {
			_, _ = c.Write([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}) // the beginning of a ClientHello
			held()
			drain(c)
		},
		"idle after the handshake": func(c net.Conn, held func()) {
			if t, ok := secure(c); ok {
				held()
				drain(t)
			}
		},
		"slow headers": func(c net.Conn, held func()) {
			t, ok := secure(c)
			for i := 0; ok; i++ {
				_, err := fmt.Fprintf(t, "%sX-%d: y\r\n", head, i)
				ok = err == nil
				held()
				time.Sleep(time.Second)
			}
		},
		"slow bodies": func(c net.Conn, held func()) {
			t, ok := secure(c)
			if !ok {
				return
			}
			_, _ = io.WriteString(t, head+"Content-Length: 6000000\r\n\r\n"+strings.Repeat(" ", 60<<10))
			held()
			for {
				if _, err := t.Write([]byte(" ")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
		"idle after a request": func(c net.Conn, held func()) {
			if t, ok := secure(c); ok {
				_, _ = io.WriteString(t, "GET /httpsReady HTTP/1.1\r\nHost: x\r\n\r\n")
				held()
				drain(t)
			}
		},
	}
}

// TestReviewsDuringAttacks opens 1,200 connections from the API server's own address for each
// attack, and with long tests 3,000, more than are allowed, for attacks that cost this machine
// little. Each connection is reopened two seconds after it is closed. Meanwhile reviews are sent on
// new connections, in turn to this server and to one that is not attacked. Each must be answered
// within a second, or on a busy machine within twenty times the duration of the other server.
// Without the limits most of them are not answered at all.
func TestReviewsDuringAttacks(t *testing.T) {
	for name, a := range attacks() {
		t.Run(name, func(t *testing.T) {
			if name != "idle" {
				longtest.Test(t)
			}
			n := 1200
			if name == "idle" || name == "half a handshake" {
				n = longtest.Rounds(1500, 3000)
			}
			address, other := serveWebhook(t), serveWebhook(t)
			besiege(t, address, n, a)
			var attacked, calm time.Duration
			for range rounds {
				calm = max(calm, timeReview(t, other))
				attacked = max(attacked, timeReview(t, address))
			}
			t.Logf("slowest of %d reviews: %v with %d connections, %v without", rounds, attacked, n, calm)
			if attacked > max(time.Second, 20*calm) {
				t.Errorf("a review took %v", attacked)
			}
		})
	}
}

// rounds is the number of reviews, each on its own connection.
const rounds = 10

// timeReview sends a review, which must be answered, and returns its duration.
func timeReview(t *testing.T, address string) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := reviewOnce(t.Context(), address); err != nil {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	return time.Since(begin)
}

// serveWebhook serves both webhooks on loopback until the test ends. change, if any, modifies the
// options.
func serveWebhook(t *testing.T, change ...func(*Options)) (address string) {
	t.Helper()
	certificate := pki.Authority("root").Issue(&x509.Certificate{
		DNSNames:    []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}).TLS()
	i := &Injector{
		Mesh: func() *meshconfig.MeshConfig { return mesh.DefaultMeshConfig() },
		Log:  slog.New(slog.DiscardHandler),
	}
	i.Configure(builtin(t))
	o := Options{
		Injector:       i,
		Validator:      &Validator{Log: slog.New(slog.DiscardHandler)},
		Metrics:        obs.NewMetrics().Webhooks,
		Log:            slog.New(slog.DiscardHandler),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	for _, c := range change {
		c(&o)
	}
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, 0) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// besiege holds n connections until the test ends, and returns when all have been opened once.
func besiege(t *testing.T, address string, n int, a attack) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var opened, ended sync.WaitGroup
	opened.Add(n)
	for range n {
		ended.Go(func() {
			first := sync.OnceFunc(opened.Done)
			defer first() // the test ends
			for ctx.Err() == nil {
				c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.Close() })
					a(c, first)
					stop()
					_ = c.Close()
				}
				select { // a machine with two cores has others to serve than this one
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	opened.Wait()
}

func reviewOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	body := review(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/inject", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"patch":`) {
		return errors.Join(fmt.Errorf("status %d, %.200s", answer.StatusCode, text), err)
	}
	return nil
}
