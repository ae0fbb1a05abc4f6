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

// Remote is how other clusters are read, to which Secrets lead.
type Remote struct {
	// Timeout is how long they may hold up the start; 0: for ever. PILOT_REMOTE_CLUSTER_TIMEOUT.
	Timeout time.Duration
	// Insecure are the dangerous fields of kubeconfigs that are taken all the same.
	// PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS.
	Insecure []string
	// LocalSecrets looks for the Secrets in the cluster that the control plane runs in, and not in the one that config is read
	// from (--kubeconfig). LOCAL_CLUSTER_SECRET_WATCHER.
	LocalSecrets bool
	// Namespace is where the Secrets are; empty: the control plane's. --clusterRegistriesNamespace.
	Namespace string
	// IgnoreWorkloadEntries has WorkloadEntries of remote clusters not read. PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY=false.
	IgnoreWorkloadEntries bool
	// External says that this control plane is that of remote clusters too which name it in the annotation
	// topology.istio.io/controlPlaneClusters of their system namespace: see lookAfterClusters. EXTERNAL_ISTIOD.
	External bool
	// NoCredentials reads no Secrets of remote clusters: gateways there have those of the config cluster.
	// PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER=false.
	NoCredentials bool
	// KeepGatewayNames leaves out gateways of networks that are known by name. RESOLVE_HOSTNAME_GATEWAYS=false.
	KeepGatewayNames bool
	// Lookup resolves their names; nil: the machine's resolver. GatewayRefresh is how often it is asked; 0: every 30 s.
	Lookup         func(ctx context.Context, name string) ([]netip.Addr, error)
	GatewayRefresh time.Duration
}

// newClusters makes the part that reads remote clusters, nil where not even the one at hand is read.
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

// openCluster makes what reads a remote cluster: its services and workloads, and no rules. Its WorkloadEntries are workloads, and its
// Gateways of the Gateway API may lead into its network. Roles by which clusters were read before those were may not allow it: a
// cluster is in sync without them too.
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

// Remote counts the remote clusters by how it stands with them.
func (x metrics) Remote(states map[mesh.ClusterID]string) {
	x.m.Clusters.Managed.WithLabelValues("remote").Set(float64(len(states)))
	x.m.Clusters.RemoteSync.Reset()
	for id, state := range states {
		x.m.Clusters.RemoteSync.WithLabelValues(string(id), state).Set(1)
	}
}

// TimedOut counts a remote cluster that held up the start for too long.
func (x metrics) TimedOut(mesh.ClusterID) { x.m.Clusters.RemoteTimeouts.Inc() }

// remoteClusters is what the debug pages show of them.
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
