package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
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
  tls: {backend: {clientCertificateRef: {name: client-cert}}}
  listeners:
  - {name: http, port: %[1]d, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: All}}}
  - {name: https, port: %[2]d, protocol: HTTPS, hostname: web.example.com, tls: {certificateRefs: [{name: web-cert}]}, allowedRoutes: {namespaces: {from: All}}}
  - {name: wild, port: %[2]d, protocol: HTTPS, hostname: "*.example.com", tls: {certificateRefs: [{name: wild-cert}]}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: %[3]d, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: ended, port: %[3]d, protocol: TLS, hostname: "*.wild.example.com", tls: {certificateRefs: [{name: ended-cert}]}, allowedRoutes: {namespaces: {from: All}}}
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
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: ended, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system, sectionName: ended}]
  hostnames: [a.wild.example.com]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: missing, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system, sectionName: tls}]
  hostnames: [missing.example.com]
  rules: [{backendRefs: [{name: none, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system}]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.default.svc.cluster.local, port: 8000}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: origination, namespace: default}
spec:
  parentRefs: [{name: edge, namespace: istio-system, sectionName: http}]
  hostnames: [pass.example.com, refused.example.com]
  rules:
  - matches: [{path: {value: /good}}]
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: secure, port: 443}]
  - matches: [{path: {value: /bad}}]
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: wrong, port: 443}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: good, namespace: default}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: secure}]
  validation: {hostname: pass.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: other}, {group: "", kind: ConfigMap, name: authority}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: wrong, namespace: default}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: wrong}]
  validation: {hostname: other.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wrong, namespace: default}
spec: {hosts: [wrong.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 443, protocol: HTTP, targetPort: %[6]d}], endpoints: [{address: 127.0.0.1}]}
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
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: secure, namespace: default}
spec: {hosts: [secure.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 443, protocol: HTTP, targetPort: %[6]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: authority, namespace: default}
data:
  ca.crt: |
    %[7]s
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: default}
data:
  ca.crt: |
    %[8]s
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
	ended, client := newPair(4, "a.wild.example.com"), newPair(5, "client")
	e.Write("certs.yaml", web.secret("web-cert")+"---\n"+wild.secret("wild-cert")+"---\n"+ended.secret("ended-cert")+"---\n"+client.secret("client-cert"))
	indented := func(p pair) string {
		return strings.ReplaceAll(strings.TrimSpace(string(p.CertificatePEM())), "\n", "\n    ")
	}
	e.Write("gateway.yaml", fmt.Sprintf(
		gatewayAPIText, ports[0], ports[1], ports[2], ports[3], httpBackend(t, "web"), certifiedBackend(t, behind), indented(behind), indented(wild),
	))
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
		{"TLS that ends at the gateway", caller{port: ports[2], roots: ended}, "https://a.wild.example.com/a", "web a.wild.example.com /a"},
		{"TLS to a missing backend", caller{port: ports[2], roots: behind}, "https://missing.example.com/", `error: Get "https://missing.example.com/": `},
		{"TCP", caller{port: ports[3]}, "http://any.example.org/a", "web any.example.org /a"},
		{"TLS to a backend", plain, "http://pass.example.com/good", "behind for client"},
		{"TLS to a backend with another name", plain, "http://refused.example.com/bad", "503"},
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

// certifiedBackend starts a server with TLS that answers with the common name of the client's certificate.
func certifiedBackend(t *testing.T, p pair) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if list := r.TLS.PeerCertificates; len(list) > 0 {
			fmt.Fprintf(w, "behind for %s", list[0].Subject.CommonName)
			return
		}
		fmt.Fprint(w, "behind")
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{p.TLS()}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}
