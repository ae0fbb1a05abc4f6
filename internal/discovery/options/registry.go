package options

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry configures how objects are converted to services. The zero value has Istio's defaults.
type Registry struct {
	// IngressNamespace is the namespace of the gateways that serve Kubernetes Ingresses; if empty,
	// istio-system (K8S_INGRESS_NS).
	IngressNamespace string
	// ReadyOnly omits endpoints that are not ready, which are otherwise sent as unhealthy (set by
	// PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false).
	ReadyOnly bool
	// Labels are the names of the labels for services with sessions and for workloads that drain.
	Labels mesh.Labels
	// DualStack combines a pod's addresses of both families into one endpoint (default false;
	// ISTIO_DUAL_STACK).
	DualStack bool
	// IgnoreWorkloadEntries prevents Kubernetes Services from selecting WorkloadEntries (set by
	// PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES=false).
	IgnoreWorkloadEntries bool
	// IgnorePods prevents ServiceEntries from selecting pods (set by
	// PILOT_ENABLE_SERVICEENTRY_SELECT_PODS=false).
	IgnorePods bool
	// IgnoreGateways prevents Gateways of the Gateway API from being used as network gateways (set
	// by PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API=false).
	IgnoreGateways bool
	// Export creates a ServiceExport for every Service that is not cluster-local (default false;
	// ENABLE_MCS_AUTO_EXPORT).
	Export bool
	// ClusterSet selects the supported parts of the Multi-Cluster Services API.
	ClusterSet kube.ClusterSet
}
