package networks

import (
	"fmt"
	"strings"
)

// rules makes each request use a new connection, because the gateway chooses a pod for each
// connection. A header selects the host of a subset.
const rules = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web
  trafficPolicy:
    connectionPool: {http: {maxRequestsPerConnection: 1}}
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web]
  http:
  - match: [{headers: {version: {exact: v1}}}]
    route: [{destination: {host: web, subset: v1}}]
  - match: [{headers: {version: {exact: v2}}}]
    route: [{destination: {host: web, subset: v2}}]
  - route: [{destination: {host: web}}]
`

// onlyFar: the caller has the gateway as its only endpoint, and all pods behind it answer. They
// accept only mutual TLS, and calls only of this caller.
func (w *world) onlyFar() {
	w.near.apply(rules)
	until(w.T, "the caller knows the gateway", w.has(w.farAway(15443)))
	w.answered("all pods behind the gateway answer", "west/", 3)
	if got := w.far.passed("outbound_.9080_._.web.shop.svc.cluster.local"); got < calls {
		w.Errorf("%d connections went through the gateway, want %d at least", got, calls)
	}
}

func (w *world) subsets() {
	w.answered("both pods of v1 answer", "west/web-v1", 2, "-H", "version:v1")
	w.answered("the pod of v2 answers", "west/web-v2", 1, "-H", "version:v2")
	if got := w.far.passed("outbound_.9080_.v2_.web.shop.svc.cluster.local"); got < calls {
		w.Errorf("%d connections for v2 went through the gateway, want %d at least", got, calls)
	}
}

// weights: one pod of four is near, so it answers a quarter of the calls.
func (w *world) weights() {
	w.near.web("v1", 1, "")
	w.near.rolledOut(shop, "web-v1")
	until(w.T, "the caller knows the near pod", w.has(w.near.podAddress("app=web"), w.farAway(15443)))
	const many = 400
	got := w.caller.call(many)
	near, _ := got.good("east/")
	if far, _ := got.good("west/"); near+far != many || near < many/8 || near > many*3/8 {
		w.Errorf("of %d calls %d were answered near by, and %d far away; want a quarter near by: %v", many, near, far, got)
	}
}

// plaintext: a gateway reads the destination of a connection from mutual TLS, so pods that do not
// accept it cannot be reached through it.
func (w *world) plaintext() {
	w.near.apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web-v2, namespace: shop}
spec: {selector: {matchLabels: {version: v2}}, mtls: {mode: DISABLE}}
`)
	until(w.T, "v2 is not called any more", func() error {
		if hosts := w.hosts("v2"); len(hosts) > 0 {
			return fmt.Errorf("the caller has %v", hosts)
		}
		return nil
	})
	got := w.caller.call(calls)
	for who := range got {
		if strings.Contains(who, "/web-v2-") || who == "" {
			w.Errorf("calls were answered by %v", got)
		}
	}
	w.near.apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web-v2, namespace: shop}
spec: {selector: {matchLabels: {version: v2}}, mtls: {mode: PERMISSIVE}}
`)
	w.answered("the pod of v2 answers again", "west/web-v2", 1, "-H", "version:v2")
}

// gatewayAway: while the gateway does not answer, the near pod does; failed calls are retried
// there.
func (w *world) gatewayAway() {
	w.near.apply(strings.Replace(rules, "connectionPool:", `outlierDetection: {consecutiveGatewayErrors: 1, interval: 1s, baseEjectionTime: 2s, maxEjectionPercent: 100}
    connectionPool:`, 1))
	w.far.scale(system, "istio-eastwestgateway", 0)
	w.answered("the near pod answers all calls", "east/", 1)
	w.far.scale(system, "istio-eastwestgateway", 1)
	until(w.T, "pods behind the gateway answer again", func() error {
		if _, pods := w.caller.call(calls).good("west/"); pods != 3 {
			return fmt.Errorf("%d of them do", pods)
		}
		return nil
	})
	w.near.apply(rules)
	w.near.do("-n", shop, "delete", "deployment", "web-v1")
	until(w.T, "the near pod is gone", w.has(w.farAway(15443)))
}

// meshNetworks: the same gateway, named in MeshNetworks. The resolved addresses of its name are
// retained while it cannot be resolved.
func (w *world) meshNetworks() {
	w.far.do("-n", system, "label", "service", "istio-eastwestgateway", "topology.istio.io/network-")
	until(w.T, "the gateway is not known by its label any more", func() error {
		return notError(w.has(w.farAway(15443))(), "the caller still has it")
	})
	w.networks("registryServiceName: istio-eastwestgateway.istio-system.svc.cluster.local")
	until(w.T, "the gateway is known by the name of its service", w.has(w.farAway(15443)))
	w.answered("all pods behind it answer", "west/", 3)

	w.networks("address: 192.0.2.1")
	until(w.T, "another gateway is known by its address", w.has("192.0.2.1:15443"))

	w.networks("address: far-gateway.istio-system.svc.cluster.local")
	until(w.T, "there is no way to a gateway of which no address is known", w.has())
	w.near.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: far-gateway, namespace: istio-system}
spec: {clusterIP: None, ports: [{name: tls, port: 15443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far-gateway, namespace: istio-system, labels: {kubernetes.io/service-name: far-gateway}}
addressType: IPv4
endpoints: [{addresses: [%s]}]
ports: [{name: tls, port: 15443}]
`, w.gateway))
	until(w.T, "the name is resolved", w.has(w.farAway(15443)))
	w.answered("all pods behind it answer", "west/", 3)
	w.near.do("-n", system, "delete", "service", "far-gateway")
	until(w.T, "the name cannot be resolved any more", w.near.debug(system, "problemz", "far-gateway.istio-system.svc.cluster.local"))
	check(w.T, "what the name stood for", w.has(w.farAway(15443))())
	w.answered("all pods behind it answer", "west/", 3)
	w.networks("")
}

func notError(err error, what string) error {
	if err == nil {
		return fmt.Errorf("%s", what)
	}
	return nil
}

// networks has MeshNetworks name a gateway of the far network, or be empty.
func (w *world) networks(gateway string) {
	text := "networks: {}"
	if gateway != "" {
		text = fmt.Sprintf("networks: {far: {endpoints: [{fromRegistry: west}], gateways: [{port: 15443, %s}]}}", gateway)
	}
	w.near.do("-n", system, "patch", "configmap", "istio", "--type=merge", "-p", fmt.Sprintf(`{"data":{"meshNetworks":%q}}`, text))
}

// otherGateways: Services with the label of a network whose gateway is not at port 15443 of a load balancer.
func (w *world) otherGateways() {
	w.far.apply(`
apiVersion: v1
kind: Service
metadata:
  name: by-port
  namespace: istio-system
  labels: {topology.istio.io/network: far, networking.istio.io/gatewayPort: "15555"}
spec:
  type: LoadBalancer
  selector: {istio: eastwestgateway}
  ports: [{name: tls, port: 15555, targetPort: 15443}]
`)
	address := w.far.loadBalancer(system, "by-port")
	until(w.T, "the gateway is known at its port", w.has(address+":15555"))
	w.answered("all pods behind it answer", "west/", 3)
	w.far.do("-n", system, "delete", "service", "by-port")
	// Only external addresses of nodes lead in from outside.
	// The API server allocates ports below 30086 last, so the chosen one is free.
	node := fmt.Sprintf("10.%d.0.1", 244-w.far.index)
	w.far.do("patch", "node", "node", "--subresource=status", "--type=strategic", "-p",
		fmt.Sprintf(`{"status":{"addresses":[{"type":"ExternalIP","address":%q}]}}`, node))
	w.far.apply(`
apiVersion: v1
kind: Service
metadata:
  name: by-node
  namespace: istio-system
  labels: {topology.istio.io/network: far}
  annotations: {traffic.istio.io/nodeSelector: "{}"}
spec:
  type: NodePort
  selector: {istio: eastwestgateway}
  ports: [{name: tls, port: 15443, nodePort: 30043}]
`)
	until(w.T, "the gateway is known at the node", w.has(node+":30043"))
	w.answered("all pods behind it answer", "west/", 3)
}
