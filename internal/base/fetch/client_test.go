package fetch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestForbiddenAddresses tests the matrix of T-SSRF-JWKS.
func TestForbiddenAddresses(t *testing.T) {
	scorecard.Check(t, 38)
	for text, want := range map[string]bool{
		"8.8.8.8": true, "10.1.2.3": true, "192.168.1.1": true, "172.16.0.1": true, "100.64.0.1": true, "2001:db8::1": true, "fd00::1": true,
		"64:ff9b::808:808": true, "2002:808:808::1": true,

		"127.0.0.1": false, "127.255.255.254": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"169.254.169.254": false, "169.254.0.1": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "100.100.100.200": false,
		"192.0.0.192": false, "224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false, "fd20:ce::254": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, "::169.254.169.254": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::a9fe:a9fe": false, "2002:a9fe:a9fe::1": false, "2002:7f00:1::": false,
	} {
		if got := isReachable(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s may be dialled: %v, want %v", text, got, want)
		}
	}
}

// counting starts a server that counts connections.
func counting(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, n
}

func get(t *testing.T, c *http.Client, url string) (int, error) {
	t.Helper()
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return len(text), err
}

// TestThisMachineIsNotReached tests this host's address, a name for it, and a redirect to it.
func TestThisMachineIsNotReached(t *testing.T) {
	scorecard.Check(t, 38)
	s, connections := counting(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "127.1"} {
		if _, err := get(t, NewClient(Options{Timeout: 2 * time.Second}), "http://"+host+":"+port); err == nil {
			t.Errorf("%s is reached", host)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if _, err := get(t, NewClient(Options{Loopback: true}), s.URL); err != nil || connections.Load() != 1 {
		t.Errorf("where loopback is allowed: %v, %d connections", err, connections.Load())
	}
}

// TestRedirects tests that each redirect is checked, that they are limited, and that none leaves
// TLS.
func TestRedirects(t *testing.T) {
	scorecard.Check(t, 38)
	hops := 0
	s, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		hops++
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}
	})
	for _, path := range []string{"/loop", "/metadata", "/file"} {
		hops = 0
		began := time.Now()
		if _, err := get(t, NewClient(Options{Loopback: true}), s.URL+path); err == nil {
			t.Errorf("%s is followed", path)
		}
		if hops > maxRedirects+1 || time.Since(began) > 4*time.Second {
			t.Errorf("%s: %d hops in %v", path, hops, time.Since(began))
		}
	}
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.URL, http.StatusFound) }))
	defer secure.Close()
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // as in httptest
	if _, err := get(t, NewClient(Options{Loopback: true, Roots: roots}), secure.URL); err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("a redirect out of TLS: %v", err)
	}
	if _, err := get(t, NewClient(Options{Loopback: true}), secure.URL); err == nil {
		t.Error("a server with an unknown certificate is believed")
	}
}

// TestBounds tests a body that does not end and one that does not begin.
func TestBounds(t *testing.T) {
	scorecard.Check(t, 38)
	s, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := fmt.Fprint(w, strings.Repeat("a", 4096)); err != nil {
					return
				}
			}
		case "/slow":
			<-r.Context().Done()
		case "/exact":
			_, _ = fmt.Fprint(w, strings.Repeat("a", 1000)) // the client closes the connection
		}
	})
	o := Options{Loopback: true, Timeout: 500 * time.Millisecond, MaxBytes: 1000}
	if n, err := get(t, NewClient(o), s.URL+"/endless"); !errors.Is(err, errTooLarge) || n > 1001 {
		t.Errorf("an endless body: %d bytes, %v", n, err)
	}
	if n, err := get(t, NewClient(o), s.URL+"/exact"); err != nil || n != 1000 {
		t.Errorf("a body of just the bound: %d bytes, %v", n, err)
	}
	began := time.Now()
	if _, err := get(t, NewClient(o), s.URL+"/slow"); err == nil || time.Since(began) > 3*time.Second {
		t.Errorf("a server that sends nothing: %v after %v", err, time.Since(began))
	}
}

// TestBlockedNetworks tests that blocked networks are blocked in any notation.
func TestBlockedNetworks(t *testing.T) {
	o := Options{Blocked: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}
	for address, blocked := range map[string]bool{
		"10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "[64:ff9b::a01:203]:443": true, "[2001:db8::1]:443": true, "[2001:db8::1%eth0]:443": true,
		"11.1.2.3:443": false, "[2001:db9::1]:443": false,
	} {
		if err := o.Check(address); (err != nil) != blocked {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestFailuresLeaveNothingOpen tests that a server that fails in every way leaks no file descriptor
// (T-FD).
func TestFailuresLeaveNothingOpen(t *testing.T) {
	s, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ill":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "ill") // only descriptors are checked
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("a", 2000))
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}
	})
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	c := NewClient(Options{Loopback: true, Timeout: 5 * time.Second, MaxBytes: 1000})
	ask := func(n int) {
		for i := range n {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+[]string{"/ill", "/cut", "/long", "/away"}[i%4], nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.Do(r)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		c.CloseIdleConnections()
	}
	ask(40)
	before := files()
	ask(2000)
	// The server closes its side when it learns of the client's.
	for end := time.Now().Add(5 * time.Second); files() > before+5 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := files(); after > before+5 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}
