package pilotctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	agentenvoy "github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayMesh has a gateway with a route, at a port, and a policy. Every second answer of its service is an error.
const gatewayMesh = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec: {hosts: [web.shop], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 127.0.0.9}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {selector: {istio: gateway}, servers: [{port: {number: PORT, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: ["*"], gateways: [public], http: [{timeout: 3s, match: [{uri: {prefix: /web}}], route: [{destination: {host: web.shop}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: no-admin, namespace: shop}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}
`

// gatewayBootstrap is that of the gateway.
const gatewayBootstrap = `
node:
  id: "router~127.0.0.1~gateway.shop~shop.svc.cluster.local"
  cluster: test
  metadata: {LABELS: {istio: gateway}, NAMESPACE: shop, MESHPILOT_IDENTITY: none, ISTIO_VERSION: 1.31.0}
admin: {address: {socket_address: {address: ADMINHOST, port_value: ADMINPORT}}}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{envoy_grpc: {cluster_name: xds}}]
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: XDSHOST, port_value: XDSPORT}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`

// gatewayObjects returns the objects of gatewayMesh in a namespace, with a free port, and the address of
// the gateway at that port.
func gatewayObjects(t *testing.T, namespace string) (objects, address string) {
	t.Helper()
	address = serving.FreeAddress(t)
	_, port := splitAddress(t, address)
	return strings.NewReplacer("PORT", port, "web.shop", "web."+namespace, "namespace: shop", "namespace: "+namespace,
		"{address: 127.0.0.9}", "{address: 127.0.0.1, ports: {http: "+alternatingServer(t)+"}}").Replace(gatewayMesh), address
}

func splitAddress(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// startGateway starts the real Envoy of a gateway in a namespace, with the configuration of a control
// plane, and returns the address of its admin interface.
func startGateway(t *testing.T, p *controlplane.Plane, namespace string) (admin string) {
	t.Helper()
	admin = serving.FreeAddress(t)
	adminHost, adminPort := splitAddress(t, admin)
	xdsHost, xdsPort := splitAddress(t, p.GRPC)
	text := strings.NewReplacer(
		"ADMINHOST", adminHost, "ADMINPORT", adminPort, "XDSHOST", xdsHost, "XDSPORT", xdsPort,
		"~gateway.shop~shop.svc", "~gateway."+namespace+"~"+namespace+".svc", "NAMESPACE: shop", "NAMESPACE: "+namespace,
	).Replace(gatewayBootstrap)
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text), Ready: envoy.Live(admin)})
	return admin
}

// runPilotctl runs a command without a cluster.
func runPilotctl(t *testing.T, args ...string) result {
	t.Helper()
	var out, errors bytes.Buffer
	c := cli.New()
	c.SetOut(&out)
	c.SetErr(&errors)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	if err != nil {
		errors.WriteString("pilotctl: " + err.Error() + "\n")
	}
	return result{out.String(), errors.String(), cli.ExitCode(err)}
}

// gateway starts the real Envoy of a gateway, as the pod "gateway", and waits until it has what the replica
// sent. It returns the address of its admin interface.
func (l *lab) gateway(r *replica) (admin string) {
	l.Helper()
	admin = startGateway(l.T, r.Plane, l.shop)
	l.kubelet.forward("gateway", 15000, admin)
	l.pod(l.shop, "gateway", nil, nil)
	l.eventually("Envoy has what it was sent", func() error {
		r := l.pilotctl("ps", "gateway", "-n", l.shop, "--diff")
		if n := strings.Count(r.out, "MATCH"); n != 4 || strings.Contains(r.out, "->") {
			return fmt.Errorf("%d types match:\n%s%s", n, r.out, r.errors)
		}
		return nil
	})
	return admin
}

// agent starts the agent's server for the gateway's pod, whose Envoy has an admin interface.
func (l *lab) agent(admin string) {
	l.Helper()
	client := agentenvoy.NewAdmin(netip.MustParseAddrPort(admin))
	l.Cleanup(client.Close)
	agent := httptest.NewServer(status.New(status.Options{
		Envoy: client, Metrics: status.NewMetrics(), Log: slog.New(slog.DiscardHandler), Quit: func() {}, Drain: func() {},
	}))
	l.Cleanup(agent.Close)
	l.kubelet.forward("gateway", 15020, agent.Listener.Addr().String())
}

// TestEnvoyItself asks a real Envoy through its admin interface, and compares what it has with what it
// was sent, also when it has something else.
func TestEnvoyItself(t *testing.T) {
	o := controlplane.Options(t)
	o.ConfigDir = t.TempDir()
	objects, _ := gatewayObjects(t, "shop")
	if err := os.WriteFile(filepath.Join(o.ConfigDir, "mesh.yaml"), []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	p := controlplane.Start(t, o)
	server, admin := p.HTTP, startGateway(t, p, "shop")
	status := []string{"ps", "gateway.shop", "--server", server}
	serving.Eventually(t, patience, "Envoy has what it was sent", func() error {
		r := runPilotctl(t, append(status, "--admin", admin, "--diff")...)
		if n := strings.Count(r.out, "MATCH"); n != 4 || strings.Contains(r.out, "->") {
			return fmt.Errorf("%d types match:\n%s%s", n, r.out, r.errors)
		}
		return nil
	})
	runPilotctl(t, append(status, "--diff")...).want(t, 1, "--diff: Envoy is reached through a kubeconfig, or with --admin")
	runPilotctl(t, append(status, "--admin", "127.0.0.1:1")...).want(t, 0, "warning: gateway.shop is not compared with its Envoy")

	body, err := serving.Page("http://" + admin + "/config_dump")
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(t, admin)
	f.set("/config_dump", strings.Replace(body, `"timeout": "3s"`, `"timeout": "4s"`, 1))
	r := runPilotctl(t, append(status, "--admin", f.address(), "--diff")...)
	r.want(t, 0, "1 differ", `route.timeout: "3s" -> "4s"`)
	if n := strings.Count(r.out, "MATCH"); n != 3 {
		t.Errorf("%d types match:\n%s", n, r.out)
	}

	runPilotctl(t, "pc", "routes", "--admin", admin).want(t, 0, "/web/*")
	runPilotctl(t, "pc", "bootstrap", "--admin", admin).want(t, 0, "router~127.0.0.1~gateway.shop")
	runPilotctl(t, "authz", "check", "--admin", admin).want(t, 0, "DENY     no-admin.shop")
	runPilotctl(t, "pc", "log", "--admin", admin, "--level", "rbac:debug").want(t, 0, "rbac: debug")
	runPilotctl(t, "pc", "log", "--admin", admin, "--reset").want(t, 0, "rbac: warning")
	runPilotctl(t, "pc", "log", "--admin", admin, "--level", "rbac:loud").want(t, 1, "want trace, debug")
	runPilotctl(t, "pc", "log", "--admin", admin, "--level", "absent:debug").want(t, 1, "set the log level")
	runPilotctl(t, "version", "--remote", "--server", server).want(t, 0, "control plane version ("+server+"): ", "data plane version: 1.31.0, Envoy "+envoy.Version+" (1 proxies)")
}

// TestEnvoyOfPod asks a real Envoy through port-forwards of its pod: compared with the control plane, which
// has two replicas, and for the metrics of requests, from the agent's code.
func TestEnvoyOfPod(t *testing.T) {
	l := newLab(t)
	objects, address := gatewayObjects(t, l.shop)
	l.apply(objects)
	l.replica("istiod-a", "default", nil)
	b := l.replica("istiod-b", "default", nil)
	admin := l.gateway(b)

	metrics := []string{"metrics", "gateway", "-n", l.shop, "--duration", "5s"}
	l.pilotctl(metrics...).want(t, 1, "gateway: ", "15020")
	l.agent(admin)
	r := l.pilotctl(metrics...)
	r.want(t, 0, "warning: gateway has no metrics of requests", "gateway   0.00")

	endLoad := startLoad(t, "http://"+address+"/web")
	defer endLoad()
	l.eventually("the metrics of requests", func() error {
		var list []struct {
			RPS    float64  `json:"requestsPerSecond"`
			Errors float64  `json:"errorsPerSecond"`
			P99    *float64 `json:"p99Milliseconds"`
		}
		r := l.pilotctl(append(metrics, "-o", "json")...)
		if err := json.Unmarshal([]byte(r.out), &list); err != nil {
			return fmt.Errorf("%w: %s%s", err, r.out, r.errors)
		}
		if m := list[0]; m.RPS < 1 || m.Errors < m.RPS/3 || m.Errors > m.RPS*2/3 || m.P99 == nil {
			return errors.New("the metrics are " + r.out)
		}
		return nil
	})
}

// alternatingServer starts a server whose every second answer is an error, and returns its port.
func alternatingServer(t *testing.T) string {
	t.Helper()
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	_, port := splitAddress(t, s.Listener.Addr().String())
	return port
}

// startLoad sends requests one after the other until the returned function is called.
func startLoad(t *testing.T, url string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for ctx.Err() == nil {
			_, _ = serving.Ask(ctx, http.DefaultClient, url) // every second answer is an error
		}
	})
	return func() { cancel(); load.Wait() }
}
