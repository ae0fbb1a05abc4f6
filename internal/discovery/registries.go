package discovery

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// filters returns the converters that keep objects from all later converters. The first drops
// objects of namespaces that are not selected by the mesh. Namespaces of the API server decide for
// its own objects; without an API server, Namespaces from files decide. The next ones hold
// RequestAuthentications until their keys are known, and, with an API server, plugins until their
// Secrets are known.
func (s *server) filters() []registry.Converter {
	o := namespaces.Options{Recovery: s.recovery}
	if s.options.ServicesFromCluster() {
		o.Sources = []string{s.options.ClusterFeedName()}
	}
	list := []registry.Converter{namespaces.New(o), s.issuers.Barrier}
	if s.pullSecrets != nil {
		list = append(list, s.pullSecrets.Hold)
	}
	return list
}

// converters returns the converters from objects to services, in order. Ingresses need Services,
// and ServiceEntries need Namespaces; the last converter consumes both kinds. The Gateway API's is
// included only if GatewayAPI.Enabled is set. It adds the last converter to the health metrics and
// to the cluster set, so it must be called once.
func (s *server) converters() []registry.Converter {
	o, id := s.options.Registry, mesh.ClusterID(s.options.ClusterID)
	from := s.options.ServiceConverter(id, s.recovery)
	// No controller creates EndpointSlices for pods that are read from files, so the converter
	// does. An API server has a controller for that.
	from.EndpointsFromPods = !s.options.ServicesFromCluster()
	from.InferencePools = s.options.Features.InferencePools
	services := kube.New(from)
	s.health.AddPendingEndpoints(services.PendingEndpoints)
	s.clusterSets.Add(id, services)
	list := []registry.Converter{s.ingresses}
	if s.options.GatewayAPI.Enabled {
		list = append(list, s.gateways)
	}
	return append(s.options.AppendRegistryConverters(list, s.recovery),
		serviceentry.New(serviceentry.Options{Cluster: id, SelectPods: o.SelectPods, Labels: o.Labels, Recovery: s.recovery}),
		services,
	)
}
