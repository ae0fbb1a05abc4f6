package networks

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// strict makes pods accept only mutual TLS, and web only calls of the client.
const strict = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  rules:
  - from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}]
`

// injected are the labels of a namespace with injection.
func injected() map[string]string { return map[string]string{"istio-injection": "enabled"} }

// TestClusters runs all tests that share the two clusters.
func TestClusters(t *testing.T) {
	longtest.Test(t)
	sites := startSites(t, "east", "west")
	for _, story := range []struct {
		name string
		play func(t *testing.T, east, west site)
	}{{"Networks", playNetworks}, {"External", playExternal}} {
		t.Run(story.name, func(t *testing.T) { story.play(t, sites[0].in(t), sites[1].in(t)) })
	}
}

// playNetworks installs a control plane in one of two clusters on two networks, by the commands of
// docs/install/clusters.md.
func playNetworks(t *testing.T, east, west site) {
	sites := []site{east, west}
	for _, s := range sites {
		s.namespace(shop, injected(), nil)
	}
	installDocumented(t, east, west)
	east.apply(strict)
	for _, s := range sites {
		s.service()
	}
	west.web("v1", 2, "")
	west.web("v2", 1, "")
	west.rolledOut(shop, "web-v1", "web-v2")
	caller := east.client()

	w := &world{T: t, near: east, far: west, caller: caller, gateway: east.gatewayAddress(west)}
	for _, step := range []struct {
		title string
		play  func(*world)
	}{
		{"a remote service is reached through the gateway", (*world).onlyFar},
		{"subsets are kept apart behind the gateway", (*world).subsets},
		{"load is shared by how many pods there are", (*world).weights},
		{"pods without mutual TLS are not called by way of the gateway", (*world).plaintext},
		{"the gateway stops, and starts again", (*world).gatewayAway},
		{"gateways by the name of a service, by address and by DNS name", (*world).meshNetworks},
		{"gateways at ports of nodes, and at a port of their own", (*world).otherGateways},
	} {
		t.Log(step.title)
		step.play(w)
	}
	for _, s := range sites {
		s.do("-n", shop, "delete", "deployment", "--all")
	}
	east.do("-n", system, "delete", "secret", "istio-remote-secret-west")
}
