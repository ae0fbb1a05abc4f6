package backend

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want attempt
	}{
		{"", 0, attempt{status: 200}},
		{"503 200", 0, attempt{status: 503}},
		{"503 200", 1, attempt{status: 200}},
		{"503 200", 5, attempt{status: 200}},
		{"reset 200", 0, attempt{}},
		{"200+300ms", 0, attempt{status: 200, after: 300 * time.Millisecond}},
		{"418+1s;x-a=b", 0, attempt{status: 418, after: time.Second, header: "x-a=b"}},
	} {
		if got := attemptOf(c.text, c.n); got != c.want {
			t.Errorf("attempt %d of %q: got %+v, want %+v", c.n, c.text, got, c.want)
		}
	}
}

// start starts a server on a port of this machine.
func start(t *testing.T) (address string, memory *Memory) {
	t.Helper()
	memory = NewMemory()
	s, err := New(func(network, _ string) (net.Listener, error) {
		l, err := net.Listen(network, "127.0.0.1:0")
		if err == nil {
			address = l.Addr().String()
		}
		return l, err
	}, memory, 80)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return address, memory
}

// TestEverythingOnOnePort: the first bytes select the protocol, and every request is recorded.
func TestEverythingOnOnePort(t *testing.T) {
	address, memory := start(t)
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	for name, transport := range map[string]*http.Transport{
		"HTTP/1.1": {}, "HTTP/2.0": {Protocols: h2}, "https": {TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "x.example.com"}},
	} {
		scheme := "http"
		if name == "https" {
			scheme = name
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+address+"/a?b=c", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(IDHeader, name)
		req.Header.Set(AnswerHeader, "418")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var seen Sighting
		err = json.NewDecoder(resp.Body).Decode(&seen)
		resp.Body.Close()
		transport.CloseIdleConnections()
		if err != nil || resp.StatusCode != http.StatusTeapot || seen.Path != "/a?b=c" || seen.Instance != "127.0.0.1" || seen.TLS != (name == "https") {
			t.Errorf("%s: got %d, %+v, %v", name, resp.StatusCode, seen, err)
		}
		if name != "https" && seen.Protocol != name || name == "https" && seen.ServerName != "x.example.com" {
			t.Errorf("%s: saw %s, server name %q", name, seen.Protocol, seen.ServerName)
		}
		if list := memory.SightingsOf(name); len(list) != 1 {
			t.Errorf("%s: remembered %+v", name, list)
		}
	}
}

func TestLinesAndWebSockets(t *testing.T) {
	address, memory := start(t)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i := range 2 {
		fmt.Fprintln(conn, "one")
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, fmt.Sprintf(`"attempt":%d`, i)) {
			t.Fatalf("line %d: %q, %v", i, line, err)
		}
	}
	if n := len(memory.SightingsOf("one")); n != 2 {
		t.Errorf("remembered %d lines", n)
	}
	ws, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	fmt.Fprint(ws, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nwhat?\n")
	all, err := io.ReadAll(ws)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 101 ") || !strings.Contains(string(all), `"path":"/ws"`) {
		t.Errorf("got %q, %v", all, err)
	}
}
