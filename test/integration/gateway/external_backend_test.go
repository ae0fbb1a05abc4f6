package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// externalText is a Gateway with XBackends. The numbers are the ports of its listeners for HTTP and TCP, and of the backends for HTTP,
// TLS, mutual TLS and TCP; then there are the CA certificates of the backends.
const externalText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec: {gatewayClassName: istio, listeners: [{name: http, port: %[1]d, protocol: HTTP}, {name: tcp, port: %[2]d, protocol: TCP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: external, namespace: istio-system}
spec:
  parentRefs: [{name: edge, sectionName: http}]
  rules:
  - {matches: [{path: {value: /plain}}], filters: [{type: URLRewrite, urlRewrite: {hostname: api.example.com}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: plain, port: %[3]d}]}
  - {matches: [{path: {value: /server}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: server}]}
  - {matches: [{path: {value: /other-name}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: other-name}]}
  - {matches: [{path: {value: /client}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: client}]}
  - {matches: [{path: {value: /anonymous}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: anonymous}]}
  - {matches: [{path: {value: /http2}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: http2}]}
  - {matches: [{path: {value: /wrong}}], backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: wrong}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: external, namespace: istio-system}
spec: {parentRefs: [{name: edge, sectionName: tcp}], rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: tcp}]}]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: plain, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[3]d}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: server, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[4]d}, protocol: HTTP, tls: {mode: ServerOnly, validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: http2, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[4]d}, protocol: HTTP2, tls: {mode: ServerOnly, validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: other-name, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[4]d}, tls: {mode: ServerOnly, validation: {hostname: other.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: client, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[5]d}, tls: {mode: ClientAndServer, clientCertificateRef: {name: client, namespace: pki}, validation: {hostname: api.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: anonymous, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[5]d}, tls: {mode: ServerOnly, validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: authority}]}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: tcp, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: localhost}, port: {port: %[6]d}, protocol: TCP}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: wrong, namespace: istio-system}
spec: {type: ExternalHostname, externalHostname: {hostname: 127.0.0.1}, port: {port: %[3]d}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: client, namespace: pki}
spec: {from: [{group: gateway.networking.x-k8s.io, kind: XBackend, namespace: istio-system}], to: [{group: "", kind: Secret, name: client}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: authority, namespace: istio-system}
data:
  ca.crt: |
    %[7]s
---
`

// externalServer answers with the properties of a request: name, host, protocol, server name and
// client certificate. It returns its port.
func externalServer(t *testing.T, name string, c *tls.Config) int {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sni, client := "", ""
		if r.TLS != nil {
			sni = r.TLS.ServerName
			for _, p := range r.TLS.PeerCertificates {
				client = p.Subject.CommonName
			}
		}
		fmt.Fprintf(w, "%s host=%s %s sni=%s client=%s", name, r.Host, r.Proto, sni, client)
	}))
	if c == nil {
		s.Start()
	} else {
		s.TLS, s.EnableHTTP2 = c, true
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// TestExternalBackend calls XBackends through a gateway: without TLS, with TLS of both modes, and over TCP. A certificate of another
// name is refused, and so are requests to an XBackend that cannot be used.
func TestExternalBackend(t *testing.T) {
	t.Parallel()
	server, client := newPair(1, "localhost", "api.example.com"), newPair(2, "client")
	ports := serving.FreePorts(t, 2)
	plain := externalServer(t, "plain", nil)
	encrypted := externalServer(t, "server", &tls.Config{Certificates: []tls.Certificate{server.TLS()}})
	mutual := externalServer(t, "client", &tls.Config{
		Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: client.Pool(),
	})
	e := gatewayenv.Start(t, gatewayenv.Options{
		Flags:    []string{"--secretsPlainText", "loopback"},
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	authority := strings.ReplaceAll(strings.TrimSpace(string(server.CertificatePEM())), "\n", "\n    ")
	e.Write("gateway.yaml", fmt.Sprintf(externalText, ports[0], ports[1], plain, encrypted, mutual, tcpBackend(t), authority)+
		strings.Replace(client.secret("client"), "namespace: istio-system", "namespace: pki", 1))
	for _, c := range []struct{ path, want string }{
		{"plain", "plain host=api.example.com HTTP/1.1 sni= client="},
		{"server", "server host=any.example.com HTTP/1.1 sni=localhost client="},
		{"http2", "server host=any.example.com HTTP/2.0 sni=localhost client="},
		{"client", "client host=any.example.com HTTP/1.1 sni=api.example.com client=client"},
		{"other-name", "503"},
		{"anonymous", "503"},
		{"wrong", "500"},
	} {
		gatewayenv.Eventually(t, c.path, func() error {
			return caller{port: ports[0]}.says("http://any.example.com/"+c.path, c.want)
		})
	}
	gatewayenv.Eventually(t, "a connection", func() error { return echo(ports[1]) })
}
