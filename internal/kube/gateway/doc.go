// Package gateway deploys the proxies of Gateways of the Kubernetes Gateway API.
//
// Inputs: the Gateways to deploy ([Spec]), their metadata, which the package watches, and the
// ConfigMaps with overlays that Gateways and GatewayClasses name. Outputs: for each Gateway a
// ServiceAccount, a Deployment and a Service, and if an overlay requests them a
// HorizontalPodAutoscaler and a PodDisruptionBudget; and the default GatewayClasses.
//
// Invariants: one replica, the leader, writes. All writes are server-side applies with one field
// manager, so fields of other managers stay. An object is applied only if its manifest differs from
// the last one that was applied, or if another manager has taken over a field or deleted the
// object. Objects without the label gateway.istio.io/managed are never changed. The objects have
// the Gateway as owner, so the garbage collector of Kubernetes deletes them.
//
// # How a change is deployed
//
//	Notify, or a change of a watched object -> queue of Gateways -> reconcile (deployer.go)
//	  Spec + metadata -> manifests (manifest.go) -> overlays (overlay.go) -> apply.go
//
// The pod template has no proxy image and no arguments: the injection webhook adds the template
// "gateway", as for gateways of the chart of the same name.
//
// Start with [Deployer.Run] in deployer.go. watches.go has the informers, and class.go creates
// GatewayClasses.
package gateway
