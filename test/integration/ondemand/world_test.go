package ondemand

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	effectTime = 30 * time.Second
	httpPort   = 8090
	tcpPort    = 9000
	// unused is the number of services that are not called, numbered from 100 on. Only the last one
	// is.
	unused = 50
	last   = 100 + unused - 1

	strict = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
`
)

// world is the running mesh: a client, and the servers one and two.
type world struct {
	*mesh.Mesh
	client *http.Client
	// hits counts the requests that each server has received, with copies.
	hits map[string]*atomic.Int64
}

// address is the virtual address of the n-th service, serverAddress that of a server's pod.
func address(n int) string { return fmt.Sprint("10.96.1.", n) }

var serverAddress = map[string]string{"one": "10.66.1.30", "two": "10.66.1.31"}

// service returns the n-th service, host hN.mesh, which a server's pod serves.
func service(n int, server string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: h%[1]d, namespace: default}
spec:
  hosts: [h%[1]d.mesh]
  addresses: [%[2]s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: %[4]d, protocol: HTTP}, {name: tcp, number: %[5]d, protocol: TCP}]
  endpoints: [{address: %[3]s, serviceAccount: %[6]s, labels: {app: %[6]s, security.istio.io/tlsMode: istio}}]
`, n, address(n), serverAddress[server], httpPort, tcpPort, server)
}

func pod(name, ip string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: %[1]s, nodeName: this-machine, containers: [{name: app, image: pause}]}
status: {phase: Running, podIP: %[2]s, podIPs: [{ip: %[2]s}], conditions: [{type: Ready, status: "True"}]}
---`, name, ip)
}

func startWorld(t *testing.T) *world {
	t.Helper()
	netns.Require(t)
	w := &world{hits: map[string]*atomic.Int64{}}
	dir, proxy := t.TempDir(), envoy.RequireBinary(t)
	bin := filepath.Join(dir, "bin")
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	pods := pod("client", "10.66.1.90")
	for server, ip := range serverAddress {
		pods += pod(server, ip)
	}
	w.Mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: dir, Progress: t.Logf,
		Manifests: fstest.MapFS{"pods.yaml": {Data: []byte(pods)}},
		AgentEnv:  []string{"MESHPILOT_ON_DEMAND=true"},
	})
	w.apply(t, strict, service(1, "one"), service(2, "two"), service(3, "two"))
	for n := range unused {
		w.apply(t, service(100+n, "one"))
	}
	for server := range serverAddress {
		w.serve(t, server)
	}
	w.client = &http.Client{Timeout: effectTime, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return w.Workload("client").Node.Dial(ctx, network, to)
		},
	}}
	return w
}

// apply adds or replaces objects.
func (w *world) apply(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := w.Rules.Apply(text); err != nil {
			t.Fatal(err)
		}
	}
}

// serve answers requests and raw connections to a server with its name.
func (w *world) serve(t *testing.T, server string) {
	t.Helper()
	w.hits[server] = new(atomic.Int64)
	node := w.Workload(server).Node
	listen := func(port int) net.Listener {
		l, err := node.Listen("tcp", fmt.Sprint(":", port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.hits[server].Add(1)
		fmt.Fprintf(answer, "%s %d", server, len(body))
	}))
	_ = s.Listener.Close() // nothing was served on it
	s.Listener = listen(httpPort)
	s.Start()
	t.Cleanup(s.Close)
	raw := listen(tcpPort)
	t.Cleanup(func() { _ = raw.Close() })
	go func() {
		for {
			c, err := raw.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					fmt.Fprintf(c, "%s %s", server, line)
				}
			}()
		}
	}()
}

// call sends a request to the n-th service and returns its status and body.
func (w *world) call(t *testing.T, n int, path, body string) string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	url := fmt.Sprintf("http://%s:%d%s", address(n), httpPort, path)
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = fmt.Sprintf("h%d.mesh", n)
	answer, err := w.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, text)
}

// connect sends a line over a raw connection to the n-th service and returns the answer.
func (w *world) connect(t *testing.T, n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), effectTime)
	defer cancel()
	c, err := w.Workload("client").Node.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", address(n), tcpPort))
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(effectTime))
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// clusters returns the service clusters that the client's Envoy has, sorted.
func (w *world) clusters(t *testing.T) []string {
	t.Helper()
	node := w.Workload("client").Node
	client := &http.Client{Timeout: effectTime, Transport: &http.Transport{DialContext: node.Dial, DisableKeepAlives: true}}
	answer, err := client.Get("http://127.0.0.1:15000/clusters?format=json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var page struct {
		Statuses []struct {
			Name string `json:"name"`
		} `json:"cluster_statuses"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range page.Statuses {
		if strings.HasPrefix(c.Name, "outbound|") {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// hasClusters waits until the client's Envoy has exactly these service clusters.
func (w *world) hasClusters(t *testing.T, what string, want ...string) {
	t.Helper()
	slices.Sort(want)
	serving.Eventually(t, effectTime, what, func() error {
		if got := w.clusters(t); !slices.Equal(got, want) {
			return fmt.Errorf("the client's Envoy has the clusters %q, want %q", got, want)
		}
		return nil
	})
}

// httpCluster and tcpCluster are the names of the clusters of the n-th service.
func httpCluster(n int) string { return fmt.Sprintf("outbound|%d||h%d.mesh", httpPort, n) }
func tcpCluster(n int) string  { return fmt.Sprintf("outbound|%d||h%d.mesh", tcpPort, n) }
