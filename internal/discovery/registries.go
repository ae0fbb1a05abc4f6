package discovery

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry is how services are made of objects. The zero value is Istio's defaults.
type Registry struct {
	// IngressNamespace is that of the gateways that serve Kubernetes Ingresses; empty: istio-system. K8S_INGRESS_NS.
	IngressNamespace string
	// ReadyOnly leaves out endpoints that are not ready, which callers otherwise know as unhealthy.
	// PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false.
	ReadyOnly bool
	// Labels are the names of labels of services with sessions, and of workloads that drain.
	Labels mesh.Labels
	// DualStack makes one endpoint of a pod's addresses of both families. ISTIO_DUAL_STACK.
	DualStack bool
	// IgnoreWorkloadEntries has Kubernetes Services not select WorkloadEntries. PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES=false.
	IgnoreWorkloadEntries bool
	// IgnorePods has ServiceEntries not select pods. PILOT_ENABLE_SERVICEENTRY_SELECT_PODS=false.
	IgnorePods bool
	// IgnoreGateways has Gateways of the Gateway API not lead into networks. PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API=false.
	IgnoreGateways bool
	// Export makes a ServiceExport of every Service that is not cluster-local. ENABLE_MCS_AUTO_EXPORT.
	Export bool
	// ClusterSet is how much of the Multi-Cluster Services API is followed.
	ClusterSet kube.ClusterSet
}

// filters keep objects from everything behind them: those of namespaces that the mesh does not look at. Where there is an API server
// its Namespaces say which of its own objects those are; where there are only files, theirs.
// Rules about tokens wait there for the keys that they ask for, and plugins for the Secrets that they name.
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

// converters make services of objects. Ingresses need Services, and ServiceEntries Namespaces, which the last one takes out.
func (s *server) converters() []registry.Converter {
	o, id := s.options.Registry, mesh.ClusterID(s.options.ClusterID)
	services := kube.New(kube.Options{
		Cluster: id, Domain: s.options.Domain, SystemNamespace: s.options.Namespace,
		// Nobody makes EndpointSlices of the pods in a folder, so that is done here. An API server has controllers for it.
		EndpointsFromPods: !s.options.fromCluster(),
		ReadyOnly:         o.ReadyOnly, DualStack: o.DualStack, IgnoreWorkloadEntries: o.IgnoreWorkloadEntries,
		ClusterSet: o.ClusterSet, Labels: o.Labels, IgnoreGateways: o.IgnoreGateways, Recovery: s.recovery,
	})
	s.health.await(services.PendingEndpoints)
	s.clusterSets.note(id, services)
	return []registry.Converter{
		s.ingresses,
		serviceentry.New(serviceentry.Options{Cluster: id, IgnorePods: o.IgnorePods, Labels: o.Labels, Recovery: s.recovery}),
		services,
	}
}
