package ondemand

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var services = flag.Int("services", 1000, "the number of services of TestSize")

// bootstrap is the bootstrap of an Envoy without an agent, with the statistics of the agent's
// bootstrap.
const bootstrap = `
node:
  id: sidecar~10.0.0.9~client-1.default~default.svc.cluster.local
  cluster: client.default
  metadata: {MESHPILOT_ON_DEMAND: "%[2]t", INTERCEPTION_MODE: NONE}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
stats_config:
  stats_matcher: {inclusion_list: {patterns: [{prefix: cluster_manager}, {prefix: listener_manager}, {prefix: server}, {prefix: cluster.xds-grpc}]}}
cluster_manager: {enable_deferred_cluster_creation: false}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{envoy_grpc: {cluster_name: xds-grpc}}]
  cds_config: {resource_api_version: V3, initial_fetch_timeout: 0s, ads: {}}
  lds_config: {resource_api_version: V3, initial_fetch_timeout: 0s, ads: {}}
static_resources:
  clusters:
  - name: xds-grpc
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: xds-grpc
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[1]s}}}}]}]
`

// listener is the address at which applications reach services on port 8080: their traffic is not
// captured (interception NONE).
const listener = "127.0.0.1:8080"

// size has the measurements of one sidecar: memory, received bytes, and the latencies of calls.
type size struct {
	memory   int // of Envoy, in KiB
	received int // bytes of xDS
	first    []time.Duration
	second   []time.Duration
}

// TestSize compares a sidecar that fetches clusters on demand with one that does not, in a mesh of
// many services of which it calls a few. Measure on a quiet machine with
//
//	MESHPILOT_LONG=true go test ./test/integration/ondemand -run TestSize -v -args -services 5000
func TestSize(t *testing.T) {
	longtest.Test(t)
	netns.Require(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer backend.Close()
	dir := t.TempDir()
	writeServices(t, dir, *services, backend.Listener.Addr().String())
	o := controlplane.Options(t)
	o.ConfigDir = dir
	plane := controlplane.Start(t, o)
	all := measure(t, plane, false)
	some := measure(t, plane, true)
	base := measureEmpty(t)
	t.Logf("%d services: memory of Envoy %d KiB, on demand %d KiB, without configuration %d KiB", *services, all.memory, some.memory, base)
	t.Logf("bytes received %d, on demand %d", all.received, some.received)
	t.Logf("median first call %v, second %v; on demand: first %v, second %v",
		median(all.first), median(all.second), median(some.first), median(some.second))
	if some.memory-base > (all.memory-base)/2 || some.received > all.received*3/5 { // the rest of the bytes are routes
		t.Error("on demand, a sidecar uses more than half of the memory, or receives more than 60 % of the bytes")
	}
}

func median(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// writeServices writes services with one HTTP port in 20 namespaces, all with the same endpoint.
func writeServices(t *testing.T, dir string, n int, endpoint string) {
	t.Helper()
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: ns%[2]d}
spec:
  hosts: [s%[1]d.ns%[2]d.svc.cluster.local]
  addresses: [10.%[3]d.%[4]d.%[5]d]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 8080, protocol: HTTP, targetPort: %[7]s}]
  endpoints: [{address: %[6]s}, {address: %[6]s, weight: 2}]
`, i, i%20, 100+i>>16, i>>8&255, i&255, host, port)
	}
	if err := os.WriteFile(filepath.Join(dir, "services.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// measure starts an Envoy and measures it after 50 services were called twice.
func measure(t *testing.T, plane *controlplane.Plane, onDemand bool) size {
	t.Helper()
	_, port, err := net.SplitHostPort(plane.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	p := envoy.Start(t, envoy.Options{
		Bootstrap: fmt.Appendf(nil, bootstrap, port, onDemand), Ready: envoy.Listening("tcp", listener),
	})
	defer p.Kill()
	client := &http.Client{Timeout: effectTime, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listener)
		},
	}}
	var s size
	for i := range 50 {
		n := i * *services / 50
		s.first = append(s.first, requireOK(t, client, n))
		s.second = append(s.second, requireOK(t, client, n))
	}
	s.memory = residentKiB(t, p)
	text, err := serving.Page("http://" + p.Admin() + "/stats?filter=cluster.xds-grpc.upstream_cx_rx_bytes_total")
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(text), ": ")
	if s.received, err = strconv.Atoi(value); err != nil {
		t.Fatalf("statistics: %q", text)
	}
	return s
}

// measureEmpty returns the memory of an Envoy without configuration, in KiB.
func measureEmpty(t *testing.T) int {
	t.Helper()
	p := envoy.Start(t, envoy.Options{Bootstrap: []byte("admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}")})
	defer p.Kill()
	serving.Eventually(t, effectTime, "Envoy is live", envoy.Live(p.Admin()))
	return residentKiB(t, p)
}

// requireOK calls the n-th service through Envoy and returns how long that took.
func requireOK(t *testing.T, client *http.Client, n int) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), effectTime)
	defer cancel()
	to := fmt.Sprintf("http://s%d.ns%d.svc.cluster.local:8080/", n, n%20)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %q, %v", to, answer.Status, text, err)
	}
	return time.Since(begun)
}

// residentKiB returns the resident memory of a process.
func residentKiB(t *testing.T, p *envoy.Process) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the memory of Envoy is not known")
	return 0
}
