package discovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"istio.io/api/annotation"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/debug"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/obs"
	"github.com/meshpilot/meshpilot/internal/registry"
	kuberegistry "github.com/meshpilot/meshpilot/internal/registry/kube"
	"github.com/meshpilot/meshpilot/internal/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/registry/remote"
	kubesource "github.com/meshpilot/meshpilot/internal/source/kube"
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
	// External says that this control plane is that of remote clusters too which name it in the annotation
	// topology.istio.io/controlPlaneClusters of their system namespace: they are given the mesh's roots. EXTERNAL_ISTIOD.
	External bool
}

// newClusters makes the part that reads remote clusters, nil where not even the one at hand is read.
func (s *server) newClusters() (*remote.Clusters, error) {
	o := s.options
	if s.client == nil || !o.fromCluster() {
		return nil, nil
	}
	client := s.client
	if o.Remote.LocalSecrets && o.Kubernetes.Kubeconfig != "" {
		config, err := kube.Options{UserAgent: "meshpilot/" + obs.ReadBuild().Version}.Config()
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
		Client: client, Namespace: cmp.Or(o.Remote.Namespace, o.Namespace), Local: mesh.ClusterID(o.ClusterID), Timeout: o.Remote.Timeout, Insecure: o.Remote.Insecure,
		Open: s.openCluster, Log: s.logs.Scope("multicluster"), Metrics: s.metrics,
	})
	return c, nil
}

// openCluster makes what reads a remote cluster: its services and workloads, and no rules.
func (s *server) openCluster(id mesh.ClusterID, client *kube.Client) remote.Parts {
	o := s.options
	source := kubesource.New(kubesource.Options{
		Client: client, Name: "kubernetes/" + string(id), Kinds: append(kubesource.ServiceKinds(), kubesource.ClusterSetKinds()...),
		Namespaces: o.appNamespaces(), Revision: o.Revision, Logger: s.logs.Scope("kube"), Metrics: s.metrics,
	})
	return remote.Parts{Source: withRoots{source, s, id, client}, Converters: []registry.Converter{
		namespaces.New(namespaces.Options{}),
		kuberegistry.New(kuberegistry.Options{
			Cluster: id, Domain: o.Domain, SystemNamespace: o.Namespace,
			ReadyOnly: o.Registry.ReadyOnly, DualStack: o.Registry.DualStack, IgnoreWorkloadEntries: o.Registry.IgnoreWorkloadEntries,
			ClusterSet: o.Registry.ClusterSet,
		}),
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

// publishRemoteRoots keeps the mesh's roots in the namespaces of those remote clusters that have no control plane of their own.
func (s *server) publishRemoteRoots(ctx context.Context) {
	if s.clusters == nil || !s.options.Remote.External {
		return
	}
	s.clusters.Each(ctx, func(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
		if !s.chosenBy(ctx, client) {
			return
		}
		if err := s.publishRoots(ctx, client.Kubernetes); err != nil {
			s.log.Error("the roots are not published in a remote cluster", "cluster", string(id), "err", err)
		}
	})
}

// chosenBy says whether a remote cluster has this control plane as its own. It asks until it is told.
func (s *server) chosenBy(ctx context.Context, client *kube.Client) bool {
	for pause := minAttempt; ; pause = min(2*pause, maxAttempt) {
		ns, err := client.Kubernetes.CoreV1().Namespaces().Get(ctx, s.options.Namespace, metav1.GetOptions{})
		switch {
		case err == nil:
			return slices.ContainsFunc(strings.Split(ns.Annotations[annotation.TopologyControlPlaneClusters.Name], ","), func(c string) bool {
				return c == "*" || c == s.options.ClusterID
			})
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}
