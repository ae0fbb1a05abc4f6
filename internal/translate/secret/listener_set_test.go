package secret

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestListenerSetSecret: the proxies of a Gateway receive the certificate that an attached ListenerSet
// of another namespace has in its own namespace, without a ReferenceGrant, and no other Secret there.
func TestListenerSetSecret(t *testing.T) {
	const objects = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: FROM}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more, namespace: vault}
spec:
  parentRef: {name: edge, namespace: shop}
  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: named}]}}]
---
`
	a, key := newAuthority("a"), pki.NewKey()
	content := map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key), "ca.crt": a.pem}
	secrets := manifest("Secret", "vault", "named", content) + manifest("Secret", "vault", "other", content)
	for from, want := range map[string]bool{"All": true, "Same": false} {
		m := fixture.New(t, []byte(strings.Replace(objects, "FROM", from, 1)+secrets), nil)
		v := m.View(fixture.Proxy(t, []byte(
			"{type: router, namespace: shop, account: a, labels: {gateway.networking.k8s.io/gateway-name: edge}}",
		)))
		v = view.Build(v.Snapshot, Scope(v.Key))
		g := NewGenerator(Entitled)
		if got := g.Named(v, "kubernetes-gateway://vault/named") != nil; got != want {
			t.Errorf("listeners from %s: the certificate is sent: %v, want %v", from, got, want)
		}
		if g.Named(v, "kubernetes-gateway://vault/other") != nil {
			t.Errorf("listeners from %s: another Secret is sent", from)
		}
	}
}
