package dashboards

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/prometheus"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// alertsFile is the rule file that the server evaluates.
const alertsFile = "../../../../manifests/charts/istiod/monitoring/alerts.yaml"

// prometheusAddress is where Prometheus listens, beside the control plane.
const prometheusAddress = "127.0.0.1:9090"

// startMesh starts Bookinfo with a load on reviews and a Prometheus that scrapes everything.
func startMesh(t *testing.T) (*mesh.Mesh, prometheus.Client) {
	t.Helper()
	prometheus.Require(t)
	netns.Require(t)
	proxy := envoy.RequireBinary(t)
	bin := filepath.Join(t.TempDir(), "bin")
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	m := meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: t.TempDir(), Manifests: bookinfo.Platform(), Progress: t.Logf,
		ControlPlaneEnv: []string{"GOMEMLIMIT=4GiB", "MESHPILOT_PROMETHEUS_URL=http://" + prometheusAddress},
	})
	load := mesh.StartLoad(m.Workload("client").Node, mesh.Reviews, 20)
	t.Cleanup(func() { t.Logf("the load: %+v", load.Stop()) })
	return m, startPrometheus(t, m)
}

// startPrometheus starts a server beside the control plane, which scrapes it and all proxies each
// second.
func startPrometheus(t *testing.T, m *mesh.Mesh) prometheus.Client {
	t.Helper()
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(config, []byte(configuration(m, rules)), 0o600); err != nil {
		t.Fatal(err)
	}
	node := m.ControlPlane.Node
	p, err := node.Start(netns.Command{
		Path: prometheus.Binary(t, "prometheus"),
		Args: []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(t.TempDir(), "data"), "--web.listen-address=" + prometheusAddress},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.AwaitOK(ctx, "http://"+prometheusAddress+"/-/ready"); err != nil {
		t.Fatalf("%v\n%s", err, p.Tail(30))
	}
	client := node.Client(10 * time.Second)
	t.Cleanup(client.CloseIdleConnections)
	return prometheus.Client{URL: "http://" + prometheusAddress, HTTP: client}
}

// configuration returns Prometheus' configuration, with the labels that the monitors of the charts
// give to targets.
func configuration(m *mesh.Mesh, rules string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
- job_name: istiod
  static_configs: [{targets: ["127.0.0.1:15014"], labels: {namespace: istio-system, pod: istiod-1}}]
- job_name: istio-system/istio-proxies
  metrics_path: /stats/prometheus
  static_configs:
`, rules)
	for _, w := range m.Workloads {
		fmt.Fprintf(&text, "  - {targets: [%q], labels: {namespace: %s, pod: %s}}\n",
			net.JoinHostPort(w.Node.Addr().String(), "15020"), w.Pod.Namespace, w.Pod.Name)
	}
	return text.String()
}

// keepChanging changes a rule again and again until the test ends, and applies configuration that the
// proxy of productpage rejects.
func keepChanging(t *testing.T, m *mesh.Mesh) {
	t.Helper()
	const rejected = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: rejected-%d, namespace: default, annotations: {meshpilot.io/required: "true"}}
spec:
  workloadSelector: {labels: {app: productpage}}
  configPatches:
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND, cluster: {service: reviews.default.svc.cluster.local}}
    patch: {operation: MERGE, value: {lb_policy: MAGLEV, maglev_lb_config: {table_size: %d}}}
`
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for n := 0; ; n++ {
			text := fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: details, namespace: default}
spec: {hosts: [details], http: [{timeout: %ds, route: [{destination: {host: details}}]}]}
`, n%9+1)
			if n%3 == 0 {
				text += "---" + fmt.Sprintf(rejected, 1, 4+n*2)
			}
			if err := m.Rules.Apply(text); err != nil {
				t.Errorf("change the rules: %v", err)
				return
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
}
