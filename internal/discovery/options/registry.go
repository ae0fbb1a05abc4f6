package options

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry configures how objects are converted to services. See DefaultRegistry for Istio's
// defaults.
type Registry struct {
	// IngressNamespace is the namespace of the gateways that serve Kubernetes Ingresses; if empty,
	// istio-system (K8S_INGRESS_NS).
	IngressNamespace string
	// ReadyOnly omits endpoints that are not ready, which are otherwise sent as unhealthy (default
	// false; PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false).
	ReadyOnly bool
	// Labels are the names of the labels for services with sessions and for workloads that drain.
	Labels mesh.LabelNames
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

// ServiceConverter returns the options of the converter of a cluster's Kubernetes objects to
// services. EndpointsFromPods, InferencePools and Remote are not set.
func (o Options) ServiceConverter(id mesh.ClusterID, r *recovery.Recorder) kube.Options {
	return kube.Options{
		Cluster: id, Domain: o.Domain, SystemNamespace: o.Namespace,
		ReadyOnly: o.Registry.ReadyOnly, DualStack: o.Features.DualStack,
		SelectWorkloadEntries: o.Registry.SelectWorkloadEntries, ClusterSet: o.Registry.ClusterSet,
		Labels: o.Registry.Labels, DiscoverGateways: o.Registry.DiscoverGateways, Recovery: r,
	}
}

// LocalKinds returns the kinds that are read from the control plane's own API server: the kinds of
// services, of config objects, or both. Kubernetes.Ignored is omitted, and InferencePools unless
// the feature is enabled. It returns nil if both are false.
func (o Options) LocalKinds(services, config bool) []api.Kind {
	var kinds []api.Kind
	if services {
		kinds = append(kubesource.ServiceKinds(), kubesource.ClusterSetKinds()...)
	}
	if config {
		kinds = append(kinds, kubesource.ConfigKinds()...)
	}
	if !o.Features.InferencePools {
		kinds = slices.DeleteFunc(kinds, func(k api.Kind) bool { return k == api.InferencePool })
	}
	return slices.DeleteFunc(kinds, o.Kubernetes.Ignored.Contains)
}

// RemoteKinds returns the kinds that are read from the API servers of remote clusters: services and
// workloads. It adds WorkloadEntries if they are read there and selected, and Gateways if they are
// used as network gateways. Kubernetes.Ignored is omitted.
func (o Options) RemoteKinds() []api.Kind {
	kinds := slices.Concat(kubesource.ServiceKinds(), kubesource.ClusterSetKinds())
	if o.Remote.ReadWorkloadEntries && o.Registry.SelectWorkloadEntries {
		kinds = append(kinds, api.WorkloadEntry)
	}
	if o.Registry.DiscoverGateways {
		kinds = append(kinds, api.KubernetesGateway)
	}
	return slices.DeleteFunc(kinds, o.Kubernetes.Ignored.Contains)
}
