package sidecars

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

const (
	pods = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default, labels: {app: client}}
spec: {serviceAccountName: client, nodeName: this-machine, containers: [{name: client, image: pause}]}
status: {phase: Running, podIP: 10.66.1.90, podIPs: [{ip: 10.66.1.90}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default, labels: {app: server}}
spec: {serviceAccountName: server, nodeName: this-machine, containers: [{name: server, image: pause}]}
status: {phase: Running, podIP: 10.66.1.30, podIPs: [{ip: 10.66.1.30}], conditions: [{type: Ready, status: "True"}]}
`
	services = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: server, namespace: default}
spec:
  hosts: [server.mesh]
  addresses: [10.96.1.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 8090, protocol: HTTP}]
  endpoints: [{address: 10.66.1.30, serviceAccount: server, labels: {app: server}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: server, namespace: default}
spec: {hosts: [server.mesh], http: [{retries: {attempts: 0}, route: [{destination: {host: server.mesh}}]}]}
`
	server = "10.96.1.1:8090"
	// images and modules are the servers of the agents' code, at the control plane's node.
	images, modules = "10.66.0.2:5000", "10.66.0.2:5001"
	password        = "of-the-registry"
	effectTime      = 30 * time.Second
)

// world is the running mesh: a client, and a server that answers with the received headers.
type world struct {
	*mesh.Mesh
	registry *wasm.Registry
	dir      string
	client   *http.Client
}

func startWorld(t *testing.T) *world {
	t.Helper()
	netns.Require(t)
	w := &world{dir: t.TempDir()}
	bin, proxy := filepath.Join(w.dir, "bin"), envoy.RequireBinary(t)
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	t.Chdir(w.dir)
	t.Cleanup(func() { w.tail(t) })
	w.Mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: w.dir, Progress: t.Logf,
		Manifests: fstest.MapFS{"pods.yaml": {Data: []byte(pods)}, "services.yaml": {Data: []byte(services)}},
		AgentEnv:  []string{"WASM_INSECURE_REGISTRIES=" + images},
	})
	w.registry = wasm.StartRegistry(t, listen(t, w.ControlPlane.Node, ":5000"), password)
	w.registry.Host = images
	serve(t, listen(t, w.ControlPlane.Node, ":5001"), func(answer http.ResponseWriter, r *http.Request) {
		switch words := strings.Split(r.URL.Path[1:], "/"); {
		case len(words) == 3 && words[0] == "answers":
			_, _ = answer.Write(wasm.AddsHeader(words[1], words[2]))
		case len(words) == 3 && words[0] == "requests":
			_, _ = answer.Write(wasm.AddsRequestHeader(words[1], strings.ReplaceAll(words[2], "+", " ")))
		default:
			http.NotFound(answer, r)
		}
	})
	serve(t, listen(t, w.Workload("server").Node, ":8090"), func(answer http.ResponseWriter, r *http.Request) {
		_ = r.Header.Write(answer) // the caller notices an incomplete answer
	})
	w.client = &http.Client{Timeout: effectTime, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return w.Workload("client").Node.Dial(ctx, network, server)
	}}}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// tail shows the end of every log where the test failed.
func (w *world) tail(t *testing.T) {
	logs, _ := filepath.Glob(filepath.Join(w.dir, "*", "*.log"))
	for _, log := range logs {
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s ends:\n%s", log, text[max(0, len(text)-4000):])
		}
	}
}

func listen(t *testing.T, node *netns.Node, address string) net.Listener {
	t.Helper()
	l, err := node.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serve(t *testing.T, l net.Listener, handler http.HandlerFunc) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close() // nothing was served on it
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// writeConfig writes objects as one file of the control plane; "" deletes them.
func (w *world) writeConfig(t *testing.T, name, text string) {
	t.Helper()
	staged := filepath.Join(w.dir, "staged.yaml")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(w.dir, "config", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// plugin brings a WasmPlugin for pods of an app, which is its name too; spec may name modules as URL and images as OCI.
func (w *world) plugin(t *testing.T, name, app, spec string) {
	t.Helper()
	spec = strings.NewReplacer("URL", "http://"+modules, "OCI", "oci://"+images).Replace(spec)
	w.writeConfig(t, name, fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: %s, namespace: default}\nspec: {selector: {matchLabels: {app: %s}}, %s}\n",
		name, app, spec))
}

// says calls the server and returns the status, and the headers that modules added to the answer.
func (w *world) says(ctx context.Context) (status int, added []string, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server.mesh:8090/", nil)
	if err != nil {
		return 0, nil, "", err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header.Values("x-wasm"), string(text), err
}

// eventually waits until the server's answers have that status, and these headers of modules.
func (w *world) eventually(t *testing.T, what string, status int, added ...string) {
	t.Helper()
	serving.Eventually(t, effectTime, what, func() error {
		got, headers, _, err := w.says(t.Context())
		if err != nil {
			return err
		}
		if g, want := fmt.Sprint(got, headers), fmt.Sprint(status, added); g != want {
			return fmt.Errorf("%s, want %s", g, want)
		}
		return nil
	})
}
