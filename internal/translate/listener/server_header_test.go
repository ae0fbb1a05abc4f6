package listener

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestServerHeader calls an application that sends "server: app" through the proxy of the caller, and through its own proxy.
func TestServerHeader(t *testing.T) {
	for _, tc := range []struct{ name, mesh, proxy, outbound, inbound string }{
		{"default", "", "{}", "envoy", "istio-envoy"},
		{"disabled", "defaultConfig: {proxyHeaders: {server: {disabled: true}}}", "{}", "app", "app"},
		{"value", "defaultConfig: {proxyHeaders: {server: {value: mine}}}", "{}", "mine", "mine"},
		{"of the pod", "", "proxyConfig: {proxyHeaders: {server: {value: pod}}}", "pod", "pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := fixture.New(t, []byte(uploadMesh), []byte(tc.mesh)).View(fixture.Proxy(t, []byte(tc.proxy)))
			s := &stage{t: t, routed: true, forwardTo: "store", serve: answerAsApp}
			e := s.start(listenersOf(t, NewGenerator(), v))
			for _, side := range []struct{ listener, to, want string }{
				{virtualOutbound, "10.96.0.1:80", tc.outbound}, {virtualInbound, "10.9.9.9:8080", tc.inbound},
			} {
				if got := e.serverHeader(t, side.listener, side.to); got != side.want {
					t.Errorf("%s: server %q, want %q", side.listener, got, side.want)
				}
			}
		})
	}
}

// answerAsApp is an HTTP/1.1 server for one request.
func answerAsApp(conn net.Conn) {
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nServer: app\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
}

// serverHeader sends a request and returns the "server" header of its response.
func (e *runningEnvoy) serverHeader(t *testing.T, listener, to string) string {
	t.Helper()
	conn, err := e.connect(listener, to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: store\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", listener, response.Status)
	}
	return response.Header.Get("Server")
}
