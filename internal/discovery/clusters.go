package discovery

import (
	"cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	kuberegistry "github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/ingest/source/hostname"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// newClusters returns the reader of remote clusters. It returns nil if services are not read from
// an API server. It returns an error if the client for their Secrets cannot be created.
func (s *server) newClusters() (*remote.Clusters, error) {
	o := s.options
	if s.client == nil || !o.ServicesFromCluster() {
		return nil, nil
	}
	client, err := o.SecretsClient(s.client)
	if err != nil {
		return nil, err
	}
	return remote.New(remote.Options{
		Client: client, Namespace: cmp.Or(o.Remote.Namespace, o.Namespace), Local: mesh.ClusterID(o.ClusterID),
		Timeout: o.Remote.Timeout, AllowedInsecureFields: o.Remote.Insecure, Open: s.openCluster,
		Log: s.logs.Scope("multicluster"), Metrics: remote.NewMetrics(&s.metrics.Clusters),
	}), nil
}

// openCluster returns the source and the converters of a remote cluster, and adds it to the cluster
// set. They read its services and workloads, but no routing rules or policies. WorkloadEntries are
// workloads, and Gateways of the Gateway API can be entry points of its network. The cluster is in
// sync without WorkloadEntries too, because older roles may not permit reading them.
func (s *server) openCluster(id mesh.ClusterID, client *kube.Client) remote.Parts {
	o := s.options
	source := kubesource.New(kubesource.Options{
		Client: client, Name: "kubernetes/" + string(id), Kinds: o.RemoteKinds(),
		OptionalKinds: []api.Kind{api.WorkloadEntry}, Namespaces: o.AppNamespaces(), Revision: o.Revision,
		Logger: s.logs.Scope("kube"), Metrics: kubesource.NewMetrics(&s.metrics.Sources), Recovery: s.recovery,
	})
	services := o.ServiceConverter(id, s.recovery)
	services.Remote = true
	return remote.Parts{Source: source, Converters: []registry.Converter{
		namespaces.New(namespaces.Options{Recovery: s.recovery}),
		serviceentry.New(serviceentry.Options{
			Cluster: id, SystemNamespace: o.Namespace, Labels: o.Registry.Labels, Recovery: s.recovery,
		}),
		s.clusterSets.Add(id, kuberegistry.New(services)),
	}}
}

// clusterSetServices returns the exported and imported services of all known clusters.
func (s *server) clusterSetServices() []kuberegistry.ClusterSetService {
	return s.clusterSets.Services(append(s.clusters.IDs(), mesh.ClusterID(s.options.ClusterID)))
}

// newNames returns the feed that resolves the DNS names of network gateways, or nil if
// Remote.ResolveGatewayNames is not set.
func (s *server) newNames() *hostname.Source {
	if !s.options.Remote.ResolveGatewayNames {
		return nil
	}
	return hostname.New(hostname.Options{
		Lookup: s.options.Remote.Lookup, Refresh: s.options.Remote.GatewayRefresh,
		Log: s.logs.Scope("model"), Failed: s.metrics.Clusters.NameErrors.Inc,
	})
}

// setWaiting updates readiness with the feeds that are not in sync. It omits the feed of gateway
// names while others wait; after that, the names of the current snapshot are final (SettleLast).
func (s *server) setWaiting(feeds []string) {
	if s.names != nil {
		feeds = s.names.SettleLast(feeds, func() []string { return s.builder.Current().NamesToResolve() })
	}
	s.ready.SetWaiting(feeds)
}
