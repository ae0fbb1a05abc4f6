package discovery

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/obs"
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
// an API server. It returns an error if the in-cluster client for LocalSecrets cannot be created.
func (s *server) newClusters() (*remote.Clusters, error) {
	o := s.options
	if s.client == nil || !o.ServicesFromCluster() {
		return nil, nil
	}
	client := s.client
	if o.Remote.LocalSecrets && o.Kubernetes.Kubeconfig != "" {
		config, err := kube.Options{UserAgent: "meshpilot/" + obs.ReadBuild().Version}.RESTConfig()
		if err != nil {
			return nil, fmt.Errorf("LOCAL_CLUSTER_SECRET_WATCHER: %w", err)
		}
		if client, err = kube.NewClient(config); err != nil {
			return nil, fmt.Errorf("LOCAL_CLUSTER_SECRET_WATCHER: %w", err)
		}
	}
	c := remote.New(remote.Options{
		Client: client, Namespace: cmp.Or(o.Remote.Namespace, o.Namespace), Local: mesh.ClusterID(o.ClusterID), Timeout: o.Remote.Timeout, AllowedInsecureFields: o.Remote.Insecure,
		Open: s.openCluster, Log: s.logs.Scope("multicluster"), Metrics: remote.NewMetrics(&s.metrics.Clusters),
	})
	return c, nil
}

// openCluster returns the source and the converters of a remote cluster. They read its services and
// workloads, but no routing rules or policies. WorkloadEntries are workloads, and Gateways of the
// Gateway API can be entry points of its network. Older roles may not permit reading these two
// kinds, so the cluster is in sync without them too.
func (s *server) openCluster(id mesh.ClusterID, client *kube.Client) remote.Parts {
	o := s.options
	kinds := slices.Concat(kubesource.ServiceKinds(), kubesource.ClusterSetKinds())
	if o.Remote.ReadWorkloadEntries && o.Registry.SelectWorkloadEntries {
		kinds = append(kinds, api.WorkloadEntry)
	}
	if o.Registry.DiscoverGateways {
		kinds = append(kinds, api.KubernetesGateway)
	}
	source := kubesource.New(kubesource.Options{
		Client: client, Name: "kubernetes/" + string(id), Kinds: kinds, OptionalKinds: []api.Kind{api.WorkloadEntry},
		Namespaces: o.AppNamespaces(), Revision: o.Revision, Logger: s.logs.Scope("kube"), Metrics: kubesource.NewMetrics(&s.metrics.Sources), Recovery: s.recovery,
	})
	return remote.Parts{Source: source, Converters: []registry.Converter{
		namespaces.New(namespaces.Options{Recovery: s.recovery}),
		serviceentry.New(serviceentry.Options{Cluster: id, SystemNamespace: o.Namespace, Labels: o.Registry.Labels, Recovery: s.recovery}),
		s.clusterSets.Add(id, kuberegistry.New(kuberegistry.Options{
			Cluster: id, Domain: o.Domain, SystemNamespace: o.Namespace,
			ReadyOnly: o.Registry.ReadyOnly, DualStack: o.Registry.DualStack, SelectWorkloadEntries: o.Registry.SelectWorkloadEntries,
			ClusterSet: o.Registry.ClusterSet, Labels: o.Registry.Labels, DiscoverGateways: o.Registry.DiscoverGateways, Remote: true, Recovery: s.recovery,
		})),
	}}
}

// remoteClusters returns the state of remote clusters, or nil if none are read.
func (s *server) remoteClusters() []remote.Status {
	if s.clusters == nil {
		return nil
	}
	return s.clusters.Status()
}

// clusterSetServices returns the exported and imported services of all known clusters.
func (s *server) clusterSetServices() []kuberegistry.ClusterSetService {
	known := []mesh.ClusterID{mesh.ClusterID(s.options.ClusterID)}
	for _, c := range s.remoteClusters() {
		known = append(known, c.Cluster)
	}
	return s.clusterSets.Services(known)
}

// unsyncedClusters returns the names of the remote clusters that have never been in sync.
func (s *server) unsyncedClusters() (list []string) {
	for _, c := range s.remoteClusters() {
		if c.State != remote.Synced {
			list = append(list, string(c.Cluster))
		}
	}
	return list
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

// setWaiting updates readiness with the feeds that are not in sync.
func (s *server) setWaiting(feeds []string) {
	if s.names != nil {
		feeds = s.names.SettleLast(feeds, func() []string { return s.builder.Current().NamesToResolve() })
	}
	s.ready.SetWaiting(feeds)
}
