package skew

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	internalmesh "github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

//go:embed testdata/pods.yaml
var pods []byte

const (
	serviceAddress = "10.96.1.1"
	headersPort    = 8090
	effectTime     = time.Minute
)

// serverAddresses are those of the servers' pods.
func serverAddresses() map[string]string {
	return map[string]string{"server-a": "10.66.1.10", "server-b": "10.66.1.30"}
}

func ports() echo.Ports { return echo.Ports{HTTP: 8080, HTTP2: 8082, GRPC: 7070, TCP: 9000} }

var built = flag.String("bin", "", "the directory of the programs; if empty, they are built")

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// programs builds the programs into a folder below that of the test, for all meshes of the test.
func programs(t *testing.T) string {
	t.Helper()
	netns.Require(t)
	if *built != "" {
		return *built
	}
	bin := filepath.Join(t.TempDir(), "bin")
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// world is a running mesh with its servers.
type world struct {
	*mesh.Mesh
	dir    string
	routes string // further routes of the service's VirtualService, before the one to it
}

// startWorld starts a mesh whose sidecars have the Envoy of one release.
func startWorld(t *testing.T, bin string, version internalmesh.EnvoyVersion) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	proxy := envoy.RequireRelease(t, version)
	t.Chdir(w.dir)
	w.Mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: w.dir, Progress: t.Logf, Manifests: fstest.MapFS{"pods.yaml": {Data: pods}},
	})
	for name := range serverAddresses() {
		w.serve(t, name)
	}
	w.putService(t, "server-a", "server-b")
	return w
}

// serve starts the servers of a pod: one that answers in each way that a sidecar distinguishes, and one that returns the headers
// of the request.
func (w *world) serve(t *testing.T, name string) {
	t.Helper()
	node := w.Workload(name).Node
	s, err := echo.NewServer(echo.Options{Listen: node.Listen, Version: name, Ports: []echo.Ports{ports()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l, err := node.Listen("tcp", fmt.Sprint(":", headersPort))
	if err != nil {
		t.Fatal(err)
	}
	headers := &http.Server{ReadHeaderTimeout: effectTime, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Server", name)
		_ = json.NewEncoder(rw).Encode(r.Header)
	})}
	go func() { _ = headers.Serve(l) }() // until it is closed
	t.Cleanup(func() { headers.Close() })
}

// putService creates the service of these servers, without retries, so that lost requests are seen.
func (w *world) putService(t *testing.T, servers ...string) {
	t.Helper()
	var endpoints []string
	for _, name := range servers {
		endpoints = append(endpoints, fmt.Sprintf("{address: %s, serviceAccount: server, labels: {app: server, security.istio.io/tlsMode: istio}}", serverAddresses()[name]))
	}
	w.writeConfig(t, "service", `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: server, namespace: default}
spec:
  hosts: [server.mesh]
  addresses: [`+serviceAddress+`]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {name: http, number: 8080, protocol: HTTP}
  - {name: http2, number: 8082, protocol: HTTP2}
  - {name: grpc, number: 7070, protocol: GRPC}
  - {name: tcp, number: 9000, protocol: TCP}
  - {name: http-headers, number: 8090, protocol: HTTP}
  endpoints: [`+strings.Join(endpoints, ", ")+`]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: server, namespace: default}
spec:
  hosts: [server.mesh]
  http: [`+w.routes+`{retries: {attempts: 0}, route: [{destination: {host: server.mesh}}]}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: default}
spec: {mtls: {mode: STRICT}}
`)
}

// writeConfig writes objects as one file of the control plane; "" deletes them.
func (w *world) writeConfig(t *testing.T, name, text string) {
	t.Helper()
	staged := filepath.Join(w.dir, "staged.yaml")
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(w.dir, "config", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// dial connects from the client's pod to the service.
func (w *world) dial(ctx context.Context, network, target string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	return w.Workload("client").Node.Dial(ctx, network, net.JoinHostPort(serviceAddress, port))
}

// get requests a path of the service. It returns the status, and the headers that the server
// received, and the headers that a plugin added to its answer.
func (w *world) get(ctx context.Context, path string) (status int, got http.Header, err error) {
	c := &http.Client{Transport: &http.Transport{DialContext: w.dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://server.mesh:%d%s", headersPort, path), http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		err = json.NewDecoder(resp.Body).Decode(&got)
		for _, v := range resp.Header.Values(pluginHeader) {
			got.Add(pluginHeader, v)
		}
	}
	return resp.StatusCode, got, err
}

// await waits until a request for a path has a status, and returns the headers that the server received.
func (w *world) await(t *testing.T, path string, want int) (got http.Header) {
	t.Helper()
	serving.Eventually(t, effectTime, fmt.Sprintf("%s is answered with %d", path, want), func() error {
		status, header, err := w.get(t.Context(), path)
		if err == nil && status != want {
			err = fmt.Errorf("status %d", status)
		}
		got = header
		return err
	})
	return got
}

// envoyOf sends a request to the admin interface of a pod's Envoy.
func (w *world) envoyOf(ctx context.Context, pod, path string) (string, error) {
	c := w.Workload(pod).Node.Client(5 * time.Second)
	defer c.CloseIdleConnections()
	return serving.Ask(ctx, c, "http://127.0.0.1:15000"+path)
}
