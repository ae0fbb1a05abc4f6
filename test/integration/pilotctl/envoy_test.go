package pilotctl

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayMesh has a gateway with a route, at a port, and a policy.
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

// startGateway starts a control plane and a real Envoy, and returns the addresses of the one's pages and
// the other's admin interface.
func startGateway(t *testing.T) (server, admin string) {
	t.Helper()
	split := func(address string) (host, port string) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		return host, port
	}
	o := controlplane.Options(t)
	o.ConfigDir = t.TempDir()
	_, port := split(serving.FreeAddress(t))
	mesh := strings.ReplaceAll(gatewayMesh, "PORT", port)
	if err := os.WriteFile(filepath.Join(o.ConfigDir, "mesh.yaml"), []byte(mesh), 0o600); err != nil {
		t.Fatal(err)
	}
	p := controlplane.Start(t, o)
	admin = serving.FreeAddress(t)
	adminHost, adminPort := split(admin)
	xdsHost, xdsPort := split(p.GRPC)
	text := strings.NewReplacer("ADMINHOST", adminHost, "ADMINPORT", adminPort, "XDSHOST", xdsHost, "XDSPORT", xdsPort).Replace(gatewayBootstrap)
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text), Ready: envoy.Live(admin)})
	return p.HTTP, admin
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

// TestEnvoyItself asks a real Envoy through its admin interface, and compares what it has with what it
// was sent, also when it has something else.
func TestEnvoyItself(t *testing.T) {
	server, admin := startGateway(t)
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
	runPilotctl(t, "metrics", "gateway.shop", "--admin", admin, "--duration", "1s").want(t, 0, "gateway.shop   0.00")
}
