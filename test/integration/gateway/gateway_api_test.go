package gateway

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayAPIText is a Gateway of the Gateway API with its routes. The numbers are the ports of HTTP, HTTPS, TLS and TCP, then of the
// backends (HTTP, TLS, TCP).
const gatewayAPIText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: %[1]d, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: All}}}
  - {name: https, port: %[2]d, protocol: HTTPS, hostname: web.example.com, tls: {certificateRefs: [{name: web-cert}]}, allowedRoutes: {namespaces: {from: All}}}
  - {name: wild, port: %[2]d, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: wild-cert}]}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: %[3]d, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tcp, port: %[4]d, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system}]
  hostnames: [web.example.com, other.example.com]
  rules:
  - backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000}]
  - matches: [{path: {value: /prefix}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000}]
  - matches: [{path: {value: /old}}]
    filters: [{type: RequestRedirect, requestRedirect: {scheme: https, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
  - matches: [{path: {value: /broken}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000, weight: 0}, {name: none, port: 80}]
  - matches: [{path: {value: /magic}}]
    filters: [{type: ExtensionRef, extensionRef: {group: example.com, kind: Magic, name: m}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: pass, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system}]
  hostnames: [pass.example.com]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: tls.default.svc.cluster.local, port: 443}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec: {hosts: [web.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 8000, protocol: HTTP, targetPort: %[5]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tls, namespace: default}
spec: {hosts: [tls.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: tls, number: 443, protocol: TLS, targetPort: %[6]d}], endpoints: [{address: 127.0.0.1}]}
`

// TestGatewayAPI calls a gateway that Gateway API objects in a folder configure, with real requests.
func TestGatewayAPI(t *testing.T) {
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{
		Flags:    []string{"--secretsPlainText", "loopback"},
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	ports := serving.FreePorts(t, 4)
	web, wild, behind := newPair(1, "web.example.com"), newPair(2, "*.example.com"), newPair(3, "pass.example.com")
	e.Write("certs.yaml", web.secret("web-cert")+"---\n"+wild.secret("wild-cert"))
	e.Write("gateway.yaml", fmt.Sprintf(gatewayAPIText, ports[0], ports[1], ports[2], ports[3], httpBackend(t, "web"), tlsBackend(t, "behind", behind)))
	plain := caller{port: ports[0]}
	gatewayenv.Eventually(t, "HTTP", func() error {
		return plain.says("http://web.example.com/a", "web web.example.com /a cert=false proto=http")
	})
	for _, call := range []struct {
		name string
		caller
		url, want string
	}{
		{"a rewritten prefix", plain, "http://web.example.com/prefix/b", "web web.example.com /b"},
		{"a prefix of whole elements", plain, "http://web.example.com/prefixes", "web web.example.com /prefixes"},
		{"a redirect", plain, "http://web.example.com/old/x", "302 https://web.example.com/new/x"},
		{"a missing backend", plain, "http://web.example.com/broken", "500"},
		{"an unsupported filter", plain, "http://web.example.com/magic", "500"},
		{"a host of no route", plain, "http://none.example.com/", "404"},
		{"a host of no listener", plain, "http://example.org/", "404"},
		{"HTTPS", caller{port: ports[1], roots: web}, "https://web.example.com/a", "web web.example.com /a cert=false proto=https"},
		{"a wildcard listener", caller{port: ports[1], roots: wild}, "https://other.example.com/a", "web other.example.com /a"},
		{"TLS that is handed on", caller{port: ports[2], roots: behind}, "https://pass.example.com/", "behind"},
	} {
		t.Run(call.name, func(t *testing.T) {
			gatewayenv.Eventually(t, call.url, func() error { return call.says(call.url, call.want) })
		})
	}
	t.Run("a removed listener closes its port", func(t *testing.T) {
		e.Write("gateway.yaml", "")
		gatewayenv.Eventually(t, "port "+strconv.Itoa(ports[0]), func() error { return plain.says("http://web.example.com/a", "error") })
	})
}
