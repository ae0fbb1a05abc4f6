package listener

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestForeignTLSObeysPolicies connects under PERMISSIVE by TLS of clients that are no proxies. Such a connection must not reach the
// application at a port declared as HTTP, where policies for requests could not be applied to it. At all other ports it must
// reach the application, unless a policy denies it.
func TestForeignTLSObeysPolicies(t *testing.T) {
	const (
		declaredHTTP, undeclared, tcp, https, tlsPort, noService uint16 = 8080, 8081, 8082, 8083, 8084, 9999
	)
	all := []uint16{declaredHTTP, undeclared, tcp, https, tlsPort, noService}
	for _, tc := range []struct {
		name, policy string
		want         []uint16 // the ports at which the connection reaches the application
	}{
		{"no policy", "", all[1:]},
		{"a policy denies ports", `{action: DENY, rules: [{to: [{operation: {ports: ["8080", "8082", "9999"]}}]}]}`, []uint16{undeclared, https, tlsPort}},
		{"a policy allows a port", `{action: ALLOW, rules: [{to: [{operation: {ports: ["8080", "8083"]}}]}]}`, []uint16{https}},
		{"a policy denies requests", `{action: DENY, rules: [{to: [{operation: {methods: [GET], ports: ["8080", "8084"]}}]}]}`, []uint16{undeclared, tcp, https, noService}},
		{"a policy allows requests", `{action: ALLOW, rules: [{to: [{operation: {paths: [/]}}]}]}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := `
kind: Service
metadata: {name: shop}
spec:
  clusterIP: 10.96.0.1
  selector: {app: shop}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: undeclared, port: 81, targetPort: 8081}
  - {name: tcp, port: 82, targetPort: 8082}
  - {name: https, port: 83, targetPort: 8083}
  - {name: tls, port: 84, targetPort: 8084}
---
{kind: Pod, metadata: {name: client, labels: {app: shop}}, status: {podIP: 10.9.9.9, phase: Running}}
`
			if tc.policy != "" {
				text += "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: policy}\nspec: " + tc.policy
			}
			v := fixture.New(t, []byte(text), nil).View(fixture.Proxy(t, []byte("identity: true")))
			inbound := slices.DeleteFunc(listenersOf(t, NewGenerator(), v), func(l *listenerv3.Listener) bool { return l.GetName() != virtualInbound })
			var reached atomic.Int32
			e := (&stage{t: t, serve: func(conn net.Conn) {
				defer conn.Close()
				// Envoy may connect before a policy denies the connection. Only bytes show that it did not.
				if n, _ := conn.Read(make([]byte, 1)); n > 0 {
					reached.Add(1)
				}
			}}).start(inbound)
			for _, port := range all {
				for _, alpn := range []string{"", "http/1.1,h2"} {
					before := reached.Load()
					err := e.handshake(t, port, strings.FieldsFunc(alpn, func(r rune) bool { return r == ',' }))
					if got, want := reached.Load() > before, slices.Contains(tc.want, port); got != want {
						t.Errorf("port %d, ALPN %q: reached the application: %t, want %t (%v)", port, alpn, got, want, err)
					}
				}
			}
		})
	}
}

// handshake begins TLS with a captured inbound connection. It returns when the application or Envoy closes the connection.
func (e *runningEnvoy) handshake(t *testing.T, port uint16, alpn []string) error {
	t.Helper()
	conn, err := net.Dial("unix", e.socket(virtualInbound))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, proxyHeader(netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), port))); err != nil {
		t.Fatal(err)
	}
	return tls.Client(conn, &tls.Config{ServerName: "shop.example.com", NextProtos: alpn, MinVersion: tls.VersionTLS12}).Handshake()
}
