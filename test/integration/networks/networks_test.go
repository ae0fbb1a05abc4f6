package networks

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// crossing exposes the services of a network to the others.
const crossing = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross-network-gateway, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - {port: {number: 15443, name: tls, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["*.local"]}
`

// exposing exposes the control plane to other clusters through its own gateway.
const exposing = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: istiod-gateway, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - {port: {number: 15012, name: tls-istiod, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ["*"]}
  - {port: {number: 15017, name: tls-webhook, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: istiod-vs, namespace: istio-system}
spec:
  hosts: ["*"]
  gateways: [istiod-gateway]
  tls:
  - match: [{port: 15012, sniHosts: ["*"]}]
    route: [{destination: {host: istiod.istio-system.svc.cluster.local, port: {number: 15012}}}]
  - match: [{port: 15017, sniHosts: ["*"]}]
    route: [{destination: {host: istiod.istio-system.svc.cluster.local, port: {number: 443}}}]
`

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

// eastwest is the gateway into a network.
func eastwest(network string) mesh.Chart {
	return mesh.Chart{Release: "istio-eastwestgateway", Chart: "gateway", Namespace: system, Set: []string{
		"networkGateway=" + network, "autoscaling.enabled=false",
	}}
}

// TestClusters runs all tests that share the two clusters.
func TestClusters(t *testing.T) {
	longtest.Test(t)
	sites := startSites(t, "one", "two")
	for _, story := range []struct {
		name string
		play func(t *testing.T, one, two site)
	}{{"Networks", playNetworks}, {"External", playExternal}} {
		t.Run(story.name, func(t *testing.T) { story.play(t, sites[0].in(t), sites[1].in(t)) })
	}
}

// playNetworks: two clusters on two networks, one of which has the control plane, installed as
// Istio's documentation describes (primary-remote on different networks).
func playNetworks(t *testing.T, one, two site) {
	sites := []site{one, two}
	for _, s := range sites {
		s.namespace(shop, injected(), nil)
	}
	one.namespace(system, map[string]string{"topology.istio.io/network": "near"}, nil)
	one.install(
		mesh.Chart{Release: "istio-base", Chart: "base", Namespace: system},
		mesh.Chart{Release: "istiod", Chart: "istiod", Namespace: system, Set: []string{
			"global.meshID=mesh", "global.multiCluster.clusterName=one", "global.network=near", "global.externalIstiod=true", "autoscaleEnabled=false",
		}},
		eastwest("near"),
	)
	one.apply(crossing + "---" + exposing + "---" + strict)

	two.namespace(system, map[string]string{"topology.istio.io/network": "far"}, map[string]string{"topology.istio.io/controlPlaneClusters": "one"})
	two.install(
		mesh.Chart{Release: "istio-base", Chart: "base", Namespace: system, Set: []string{"base.enableCRDTemplates=false"}},
		mesh.Chart{Release: "istiod", Chart: "istiod", Namespace: system, Set: []string{
			"istiodRemote.enabled=true", "istiodRemote.injectionPath=/inject/cluster/two/net/far",
			"global.remotePilotAddress=" + one.loadBalancer(system, "istio-eastwestgateway"),
		}},
	)
	two.register(one, system, "istio-reader-service-account")
	two.install(eastwest("far"))
	for _, s := range sites {
		s.service()
	}
	two.web("v1", 2, "")
	two.web("v2", 1, "")
	two.rolledOut(shop, "web-v1", "web-v2")
	caller := one.client()

	w := &world{T: t, near: one, far: two, caller: caller, gateway: one.gatewayAddress(two)}
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
	one.do("-n", system, "delete", "secret", "istio-remote-secret-two")
}
