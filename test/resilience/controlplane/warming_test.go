package controlplane

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// requestsFor is how long requests are sent after a reconnect. It is less than the 5 s after which
// the control plane sends routes to a client that does not request clusters.
const requestsFor = 3 * time.Second

// hangingCluster adds a cluster that never gets an answer about its endpoints. Envoy leaves CDS out of
// the requests of a new stream as long as such a cluster warms.
const hangingCluster = `apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: hanging, namespace: istio-system}
spec:
  configPatches:
  - applyTo: CLUSTER
    patch:
      operation: ADD
      value:
        name: hanging
        type: EDS
        eds_cluster_config:
          eds_config:
            resource_api_version: V3
            initial_fetch_timeout: 0s
            api_config_source:
              api_type: GRPC
              transport_api_version: V3
              grpc_services: [{envoy_grpc: {cluster_name: prometheus_stats}}]
`

// TestReconnectToOlderReplicaWhileClusterWarms: a real Envoy reconnects, while one of its clusters
// warms, to a replica that does not have the cluster of its route yet. Envoy requests the endpoints
// of that cluster before the replica can see that Envoy has the cluster. No request may fail.
func TestReconnectToOlderReplicaWhileClusterWarms(t *testing.T) {
	longtest.Test(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	port := serving.FreePorts(t, 1)[0]
	newer, older := startReplica(t), startReplica(t)
	newer.write(t, "host.yaml", gatewayTo(server.Listener.Addr(), port, "g2"))
	older.write(t, "host.yaml", gatewayTo(server.Listener.Addr(), port, "g1"))
	var current atomic.Pointer[configuredReplica]
	current.Store(newer)
	balancer := startBalancer(t, func() []string { return []string{current.Load().settings.XDS} })
	envoy := startGateway(t, balancer)
	request := func() error {
		_, err := serving.Page(fmt.Sprintf("http://127.0.0.1:%d/", port))
		return err
	}
	serving.Eventually(t, patience, "the gateway serves", request)

	newer.write(t, "hanging.yaml", hangingCluster)
	serving.Eventually(t, patience, "a cluster warms", func() error {
		if n := envoy.stat(t, "cluster_manager.warming_clusters"); n != 1 {
			return fmt.Errorf("%d clusters warm", n)
		}
		return nil
	})
	current.Store(older)
	newer.process.Stop(syscall.SIGKILL)
	serving.Eventually(t, patience, "the older replica answers", func() error {
		if text := older.logged(t); !strings.Contains(text, "\tEDS: PUSH") || !strings.Contains(text, "\tLDS: PUSH") {
			return fmt.Errorf("no answer in its log:\n%s", text)
		}
		return nil
	})
	sent := 0
	for end := time.Now().Add(requestsFor); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := request(); err != nil {
			t.Fatalf("request %d after the reconnect: %v", sent, err)
		}
		sent++
	}
	if strings.Contains(older.logged(t), "\tCDS: PUSH") {
		t.Error("Envoy requested clusters while one warmed: the test proves nothing")
	}
}

// gatewayTo returns a gateway with a route to a subset of a host with one endpoint.
func gatewayTo(endpoint net.Addr, port int, subset string) string {
	address := endpoint.(*net.TCPAddr)
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gateway, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: host, namespace: istio-system}
spec:
  hosts: [host.mesh]
  ports: [{name: http, number: 80, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: %[2]s, ports: {http: %[3]d}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: host, namespace: istio-system}
spec: {host: host.mesh, subsets: [{name: %[4]s}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: host, namespace: istio-system}
spec:
  hosts: ["*"]
  gateways: [gateway]
  http: [{route: [{destination: {host: host.mesh, subset: %[4]s}}]}]
`, port, address.IP, address.Port, subset)
}

// configuredReplica is a control plane process with a directory of config files of its own.
type configuredReplica struct{ replica }

// startReplica starts a control plane with an empty directory. It ends with the test.
func startReplica(t *testing.T) *configuredReplica {
	t.Helper()
	plane, kubeconfig := controlPlane(t)
	dir, ports := t.TempDir(), serving.FreePorts(t, 3)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	r := &configuredReplica{replica{settings: target.Settings{
		Dir: dir, ConfigDir: filepath.Join(dir, "config"), XDS: at(0), HTTP: at(1), Monitoring: at(2), Kubeconfig: kubeconfig,
	}}}
	err := os.Mkdir(r.settings.ConfigDir, 0o755)
	if err == nil {
		r.log, err = os.Create(filepath.Join(dir, "log"))
	}
	if err == nil {
		r.process, err = plane.Start(t.Context(), r.settings, r.log)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.process.Stop(syscall.SIGTERM)
		r.log.Close()
		if t.Failed() {
			t.Logf("the log of the control plane at %s:\n%s", r.settings.XDS, r.logged(t))
		}
	})
	return r
}

// write replaces a config file.
func (r *configuredReplica) write(t *testing.T, name, text string) {
	t.Helper()
	staged := filepath.Join(r.settings.Dir, name)
	err := os.WriteFile(staged, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(staged, filepath.Join(r.settings.ConfigDir, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logged returns what the control plane has logged until now.
func (r *configuredReplica) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
