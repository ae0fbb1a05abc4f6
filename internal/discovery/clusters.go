package discovery

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	kuberegistry "github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Remote configures how remote clusters are read. Their kubeconfigs are in Secrets.
type Remote struct {
	// Timeout limits how long remote clusters may delay the start; 0 sets no limit
	// (PILOT_REMOTE_CLUSTER_TIMEOUT).
	Timeout time.Duration
	// Insecure lists the dangerous kubeconfig fields that are accepted nevertheless
	// (PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS).
	Insecure []string
	// LocalSecrets reads the Secrets from the cluster in which the control plane runs, instead of
	// from the config cluster of --kubeconfig (default false; LOCAL_CLUSTER_SECRET_WATCHER).
	LocalSecrets bool
	// Namespace is the namespace of the Secrets; if empty, the control plane's
	// (--clusterRegistriesNamespace).
	Namespace string
	// IgnoreWorkloadEntries excludes WorkloadEntries of remote clusters (set by
	// PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY=false).
	IgnoreWorkloadEntries bool
	// External manages remote clusters that have no control plane of their own and name this one in
	// the annotation topology.istio.io/controlPlaneClusters of their system namespace; see
	// lookAfterClusters (default false; EXTERNAL_ISTIOD).
	External bool
	// NoCredentials reads no Secrets of remote clusters. Gateways there are sent Secrets of the
	// config cluster (set by PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER=false).
	NoCredentials bool
	// KeepGatewayNames ignores network gateways whose address is a DNS name (set by
	// RESOLVE_HOSTNAME_GATEWAYS=false).
	KeepGatewayNames bool
	// Lookup resolves the DNS names of network gateways; if nil, the system resolver does.
	// GatewayRefresh is the interval of lookups; 0 is 30 s.
	Lookup         func(ctx context.Context, name string) ([]netip.Addr, error)
	GatewayRefresh time.Duration
}

// newClusters returns the reader of remote clusters. It returns nil if services are not read from
// an API server. It returns an error if the in-cluster client for LocalSecrets cannot be created.
func (s *server) newClusters() (*remote.Clusters, error) {
	o := s.options
	if s.client == nil || !o.fromCluster() {
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
	s.metrics.m.Clusters.Managed.WithLabelValues("local").Set(1)
	s.metrics.m.Clusters.Managed.WithLabelValues("remote").Set(0)
	c := remote.New(remote.Options{
		Client: client, Namespace: cmp.Or(o.Remote.Namespace, o.Namespace), Local: mesh.ClusterID(o.ClusterID), Timeout: o.Remote.Timeout, AllowedInsecureFields: o.Remote.Insecure,
		Open: s.openCluster, Log: s.logs.Scope("multicluster"), Metrics: s.metrics,
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
	if !o.Remote.IgnoreWorkloadEntries && !o.Registry.IgnoreWorkloadEntries {
		kinds = append(kinds, api.WorkloadEntry)
	}
	if !o.Registry.IgnoreGateways {
		kinds = append(kinds, api.KubernetesGateway)
	}
	source := kubesource.New(kubesource.Options{
		Client: client, Name: "kubernetes/" + string(id), Kinds: kinds, OptionalKinds: []api.Kind{api.WorkloadEntry},
		Namespaces: o.appNamespaces(), Revision: o.Revision, Logger: s.logs.Scope("kube"), Metrics: s.metrics, Recovery: s.recovery,
	})
	return remote.Parts{Source: source, Converters: []registry.Converter{
		namespaces.New(namespaces.Options{Recovery: s.recovery}),
		serviceentry.New(serviceentry.Options{Cluster: id, SystemNamespace: o.Namespace, Labels: o.Registry.Labels, Recovery: s.recovery}),
		s.clusterSets.note(id, kuberegistry.New(kuberegistry.Options{
			Cluster: id, Domain: o.Domain, SystemNamespace: o.Namespace,
			ReadyOnly: o.Registry.ReadyOnly, DualStack: o.Registry.DualStack, IgnoreWorkloadEntries: o.Registry.IgnoreWorkloadEntries,
			ClusterSet: o.Registry.ClusterSet, Labels: o.Registry.Labels, IgnoreGateways: o.Registry.IgnoreGateways, Remote: true, Recovery: s.recovery,
		})),
	}}
}

// Remote sets the gauges of remote clusters by sync state.
func (x metrics) Remote(states map[mesh.ClusterID]string) {
	x.m.Clusters.Managed.WithLabelValues("remote").Set(float64(len(states)))
	x.m.Clusters.RemoteSync.Reset()
	for id, state := range states {
		x.m.Clusters.RemoteSync.WithLabelValues(string(id), state).Set(1)
	}
}

// TimedOut increments the counter of remote clusters that exceeded the start timeout.
func (x metrics) TimedOut(mesh.ClusterID) { x.m.Clusters.RemoteTimeouts.Inc() }

// remoteClusters returns the status of remote clusters for the debug pages.
func (s *server) remoteClusters() []debug.Cluster {
	if s.clusters == nil {
		return nil
	}
	var list []debug.Cluster
	for _, c := range s.clusters.Status() {
		list = append(list, debug.Cluster{
			ID: string(c.Cluster), SecretName: c.Secret.Namespace + "/" + c.Secret.Name, SyncStatus: c.State,
			Waiting: c.Waiting, Services: c.Services, Workloads: c.Workloads, Slices: c.Shards,
		})
	}
	return list
}

// unsyncedClusters returns the names of the remote clusters that have never been in sync.
func (s *server) unsyncedClusters() (list []string) {
	if s.clusters == nil {
		return nil
	}
	for _, c := range s.clusters.Status() {
		if c.State != remote.Synced {
			list = append(list, string(c.Cluster))
		}
	}
	return list
}
