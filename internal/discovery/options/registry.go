package options

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry configures how objects are converted to services. See
// DefaultRegistry for Istio's defaults.
type Registry struct {
	// IngressNamespace is the namespace of the gateways that serve Kubernetes Ingresses; if empty,
	// istio-system (K8S_INGRESS_NS).
	IngressNamespace string
	// ReadyOnly omits endpoints that are not ready, which are otherwise sent as unhealthy (default
	// false; PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false).
	ReadyOnly bool
	// Labels are the names of the labels for services with sessions and for workloads that drain.
	Labels mesh.Labels
	// DualStack combines a pod's addresses of both families into one endpoint (default false;
	// ISTIO_DUAL_STACK).
	DualStack bool
	// SelectWorkloadEntries lets Kubernetes Services select WorkloadEntries (default true;
	// PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES).
	SelectWorkloadEntries bool
	// SelectPods lets ServiceEntries select pods (default true;
	// PILOT_ENABLE_SERVICEENTRY_SELECT_PODS).
	SelectPods bool
	// DiscoverGateways uses Gateways of the Gateway API as network gateways (default true;
	// PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API).
	DiscoverGateways bool
	// Export creates a ServiceExport for every Service that is not cluster-local (default false;
	// ENABLE_MCS_AUTO_EXPORT).
	Export bool
	// ClusterSet selects the supported parts of the Multi-Cluster Services API.
	ClusterSet kube.ClusterSet
}

// DefaultRegistry returns Istio's defaults.
func DefaultRegistry() Registry {
	return Registry{SelectWorkloadEntries: true, SelectPods: true, DiscoverGateways: true}
}
