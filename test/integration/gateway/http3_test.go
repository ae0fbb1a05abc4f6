package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
)

// TestHTTP3 calls a gateway by HTTP/3, through an Envoy that translates HTTP/1.1 to HTTP/3, because
// Go's library has no HTTP/3 client.
func TestHTTP3(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--secretsPlainText", "loopback"}, Env: []string{"PILOT_ENABLE_QUIC_LISTENERS=true"}})
	ports := serving.FreePorts(t, 2)
	web := newPair(1, "web.example.com")
	e.Write("web-cert.yaml", web.secret("web-cert"))
	e.Write("gateway.yaml", fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %d, name: https, protocol: HTTPS}, hosts: [web.example.com], tls: {mode: SIMPLE, credentialName: web-cert}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec: {hosts: [web.example.com], gateways: [istio-system/public], http: [{route: [{destination: {host: web.default.svc.cluster.local}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %d}], endpoints: [{address: 127.0.0.1}]}
`, ports[0], httpBackend(t, "web")))
	gatewayenv.Eventually(t, "HTTPS", func() error {
		return caller{port: ports[0], roots: web}.says("https://web.example.com/a", "web web.example.com /a cert=false proto=https")
	})
	translator(t, ports[1], ports[0], web)
	gatewayenv.Eventually(t, "HTTP/3", func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(ports[1])+"/b", nil)
		if err != nil {
			return err
		}
		r.Host = "web.example.com"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if alternative := answer.Header.Get("alt-svc"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(alternative, fmt.Sprintf(`h3=":%d"`, ports[0])) {
			return fmt.Errorf("%s, alt-svc %q", answer.Status, alternative)
		}
		return nil
	})
}

// translator runs an Envoy that speaks HTTP/1.1 on one port and HTTP/3 to another.
func translator(t *testing.T, from, to int, roots pair) {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := fmt.Sprintf(`{"static_resources": {
  "listeners": [{"name": "in", "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}, "filter_chains": [{"filters": [{"name": "http",
    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "in",
      "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "http3"}}]}]},
      "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
  "clusters": [{"name": "http3", "type": "STATIC",
    "load_assignment": {"cluster_name": "http3", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"protocol": "UDP", "address": "127.0.0.1", "port_value": %d}}}}]}]},
    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http3_protocol_options": {}}}},
    "transport_socket": {"name": "envoy.transport_sockets.quic", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport",
      "upstream_tls_context": {"sni": "web.example.com", "common_tls_context": {"validation_context": {"trusted_ca": {"filename": %q}}}}}}}]}}`, from, to, ca)
	if err := os.WriteFile(ca, roots.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text)})
}
