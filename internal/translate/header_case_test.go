package translate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestPodKeepsHeaderCase sends a request through the listener, route and cluster of a pod, and
// reads the names of headers as the server and the client get them.
func TestPodKeepsHeaderCase(t *testing.T) {
	envoy.RequireBinary(t)
	received := make(chan string, 1)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go answerRaw(server, received)
	_, port, _ := net.SplitHostPort(server.Addr().String())
	for _, tc := range []struct {
		name, mesh, pod   string
		request, response string
	}{
		{"by default", "", "{}", "x-mixed", "x-answered"},
		{"the mesh", "{proxyHeaders: {preserveHttp1HeaderCase: true}}", "{}", "X-MiXeD", "X-AnSwErEd"},
		{"the pod", "", "{proxyConfig: {proxyHeaders: {preserveHttp1HeaderCase: true}}}", "X-MiXeD", "X-AnSwErEd"},
		{
			"not the pod", "{proxyHeaders: {preserveHttp1HeaderCase: true}}",
			"{proxyConfig: {proxyHeaders: {server: {value: own}}}}", "x-mixed", "x-answered",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := fixture.New(t, fmt.Appendf(nil, `
kind: ServiceEntry
metadata: {name: app}
spec:
  hosts: [app.example.com]
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: %s}]
  endpoints: [{address: 127.0.0.1}]
`, port), []byte("defaultConfig: "+tc.mesh)).View(fixture.Proxy(t, []byte(tc.pod)))
			response := callRaw(t, filepath.Join(runStatic(t, v, "0.0.0.0_80"), "0.0.0.0_80"))
			if request := <-received; !strings.Contains(request, "\n"+tc.request+": 1") {
				t.Errorf("the server got %q, want the header %s", request, tc.request)
			}
			if !strings.Contains(response, "\n"+tc.response+": 1") {
				t.Errorf("the client got %q, want the header %s", response, tc.response)
			}
		})
	}
}

// TestOtherOverridesShareClusters checks that a pod's own ProxyConfig costs clusters of its own
// only for fields that clusters depend on.
func TestOtherOverridesShareClusters(t *testing.T) {
	m := fixture.New(t, nil, nil)
	scope := func(config string) view.Key {
		return clusterScope(view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte("proxyConfig: "+config))))
	}
	none := scope("{}")
	for config, shared := range map[string]bool{
		"{proxyHeaders: {server: {value: own}}}":                              true,
		"{proxyHeaders: {preserveHttp1HeaderCase: false}}":                    true,
		"{connectionSettings: {httpIdleTimeout: 600s}}":                       true,
		"{proxyHeaders: {preserveHttp1HeaderCase: true}}":                     false,
		"{connectionSettings: {clusterPerConnectionBufferLimitBytes: 32768}}": false,
	} {
		if got := scope(config) == none; got != shared {
			t.Errorf("%s: clusters are shared is %v, want %v", config, got, shared)
		}
	}
}

// answerRaw is an HTTP/1.1 server. It passes on the header of each request unchanged.
func answerRaw(l net.Listener, received chan<- string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		var header strings.Builder
		for r := bufio.NewReader(conn); ; {
			line, err := r.ReadString('\n')
			header.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(
			conn,
			"HTTP/1.1 200 OK\r\nX-AnSwErEd: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		)
		conn.Close()
		received <- header.String()
	}
}

// callRaw sends a request to a socket and returns the raw response.
func callRaw(t *testing.T, socket string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(
		conn,
		"GET / HTTP/1.1\r\nHost: app.example.com\r\nX-MiXeD: 1\r\nConnection: close\r\n\r\n",
	); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(response), fmt.Sprintf("HTTP/1.1 %d ", http.StatusOK)) {
		t.Fatalf("%q, %v", response, err)
	}
	return string(response)
}
