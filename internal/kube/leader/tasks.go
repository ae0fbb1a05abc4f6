package leader

// The names of tasks, which are those of their Leases. Where Istio has the task it has the name, for tools and people look for it.
const (
	// RootCertificates keeps the ConfigMap with the root certificates in every namespace.
	RootCertificates = "istio-namespace-controller-election"
	// Ingress writes the addresses of Ingresses.
	Ingress = "istio-leader"
	// Status writes conditions.
	Status = "istio-status-leader"
	// Addresses writes the addresses that were given to ServiceEntries.
	Addresses = "istio-ip-autoallocate"
	// ServiceExports makes ServiceExports of services.
	ServiceExports = "istio-serviceexport-controller-election"
	// Workloads takes away WorkloadEntries that nobody holds any more. Istio elects nobody for it.
	Workloads = "istio-workload-entry-cleanup"
	// Webhooks keeps the certificate authority of the webhooks' configurations. Istio elects nobody for it.
	Webhooks = "istio-webhook-leader"
)
