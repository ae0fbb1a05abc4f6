package discovery

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
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

// filters returns the converters that keep objects from all later converters. The first drops
// objects of namespaces that are not selected by the mesh. Namespaces of the API server decide for
// its own objects; without an API server, Namespaces from files decide. The next ones hold
// RequestAuthentications until their keys are known, and plugins until their Secrets are known.
func (s *server) filters() []registry.Converter {
	o := namespaces.Options{Recovery: s.recovery}
	if s.options.fromCluster() {
		o.Sources = []string{s.options.clusterName()}
	}
	list := []registry.Converter{namespaces.New(o), s.issuers.hold}
	if s.pullSecrets != nil {
		list = append(list, s.pullSecrets.hold)
	}
	return list
}

// converters returns the converters from objects to services, in order. Ingresses need Services,
// and ServiceEntries need Namespaces; the last converter consumes both kinds.
func (s *server) converters() []registry.Converter {
	o, id := s.options.Registry, mesh.ClusterID(s.options.ClusterID)
	services := kube.New(kube.Options{
		Cluster: id, Domain: s.options.Domain, SystemNamespace: s.options.Namespace,
		// No controller creates EndpointSlices for pods that are read from files, so the converter
		// does. An API server has a controller for that.
		EndpointsFromPods: !s.options.fromCluster(),
		ReadyOnly:         o.ReadyOnly, DualStack: o.DualStack, IgnoreWorkloadEntries: o.IgnoreWorkloadEntries,
		ClusterSet: o.ClusterSet, Labels: o.Labels, IgnoreGateways: o.IgnoreGateways, Recovery: s.recovery,
	})
	s.health.await(services.PendingEndpoints)
	s.clusterSets.note(id, services)
	list := []registry.Converter{s.ingresses}
	if !s.options.GatewayAPI.Off {
		list = append(list, s.gateways)
	}
	return append(list,
		serviceentry.New(serviceentry.Options{Cluster: id, IgnorePods: o.IgnorePods, Labels: o.Labels, Recovery: s.recovery}),
		services,
	)
}
