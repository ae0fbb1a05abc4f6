package leader

// The task names are the names of the Leases. Tasks that Istio has too use its names, because tools
// look for them.
const (
	// RootCertificates publishes the root certificates in every namespace.
	RootCertificates = "istio-namespace-controller-election"
	// Ingress writes the addresses of Ingresses.
	Ingress = "istio-leader"
	// Status writes status conditions.
	Status = "istio-status-leader"
	// Events writes Events on objects with errors. Istio has no election for it.
	Events = "istio-event-leader"
	// Addresses writes the addresses allocated for ServiceEntries.
	Addresses = "istio-ip-autoallocate"
	// GatewayClasses creates GatewayClasses. Istio has no election for it.
	GatewayClasses = "istio-gateway-class"
	// GatewayDeployments deploys the proxies of Gateways of the Gateway API, and GatewayStatus
	// writes the status of all its objects.
	GatewayDeployments = "istio-gateway-deployment"
	GatewayStatus      = "istio-gateway-status-leader"
	// ServiceExports creates ServiceExports of services.
	ServiceExports = "istio-serviceexport-controller-election"
	// Workloads deletes auto-registered WorkloadEntries of disconnected workloads. Istio has no
	// election for it.
	Workloads = "istio-workload-entry-cleanup"
	// Webhooks maintains the CA bundle of the webhook configurations. Istio has no election for it.
	Webhooks = "istio-webhook-leader"
)
