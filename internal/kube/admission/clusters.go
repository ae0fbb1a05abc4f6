package admission

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/kube/webhook"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// clusterReaders read what injection depends on in one cluster.
type clusterReaders struct {
	// nodes reports where native sidecars are supported. It is nil if NativeSidecars is true or false.
	nodes *webhook.Nodes
	// namespaces returns the user as which proxies of a namespace run. If nil, they run as the
	// default user.
	namespaces *webhook.Namespaces
}

// newReaders returns the readers of client's cluster that injection needs: of Nodes unless
// NativeSidecars is a boolean, and of Namespaces on OpenShift. It sends no request.
func (w *Webhooks) newReaders(client kubernetes.Interface) *clusterReaders {
	r := &clusterReaders{}
	if _, known := w.o.Settings.nativeSidecars(); !known {
		r.nodes = webhook.NewNodes(client)
	}
	if w.o.Settings.OpenShift {
		r.namespaces = webhook.NewNamespaces(client)
	}
	return r
}

// run runs the readers until ctx ends, and then returns nil. Without readers, it returns nil at
// once.
func (r *clusterReaders) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	if r.nodes != nil {
		parts.Go(func() error { return r.nodes.Run(ctx) })
	}
	if r.namespaces != nil {
		parts.Go(func() error { return r.namespaces.Run(ctx) })
	}
	return parts.Wait()
}

// remoteReaders are the readers of the remote clusters.
type remoteReaders struct {
	mu        sync.Mutex
	byCluster map[mesh.ClusterID]*clusterReaders
}

// readersOf returns the readers of a cluster, or nil if it is unknown or injection is off. The
// empty name is that of the own cluster.
func (w *Webhooks) readersOf(id mesh.ClusterID) *clusterReaders {
	if id == "" || id == w.o.ClusterID {
		return w.local
	}
	w.remote.mu.Lock()
	defer w.remote.mu.Unlock()
	return w.remote.byCluster[id]
}

// hasNativeSidecars reports whether pods on a node of the cluster get native sidecars
// (HasNativeSidecars of webhook.Nodes; the node may be ""). Pods of an unknown cluster get none,
// which is logged. It must not be called if NativeSidecars is a boolean.
func (w *Webhooks) hasNativeSidecars(cluster mesh.ClusterID, node string) bool {
	r := w.readersOf(cluster)
	if r == nil {
		w.log.Warn("injecting a pod of an unknown cluster without native sidecars", "cluster", string(cluster))
		return false
	}
	return r.nodes.HasNativeSidecars(node)
}

// proxyUsers returns the user IDs for proxies in a namespace of the cluster (ProxyUsers of
// webhook.Namespaces). For an unknown cluster it returns the zero value, which means the default
// user, and logs that. It must be called on OpenShift only.
func (w *Webhooks) proxyUsers(cluster mesh.ClusterID, namespace string) inject.Users {
	r := w.readersOf(cluster)
	if r == nil {
		w.log.Warn("injecting a pod of an unknown cluster with the default user ID", "cluster", string(cluster))
		return inject.Users{}
	}
	return r.namespaces.ProxyUsers(namespace)
}

// ReadRemoteCluster reads the Nodes and Namespaces that injection depends on from a remote cluster,
// until ctx ends. It returns at once if injection is off or depends on neither.
func (w *Webhooks) ReadRemoteCluster(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
	r := w.newReaders(client.Kubernetes)
	if w.injector == nil || r.nodes == nil && r.namespaces == nil {
		return
	}
	w.remote.mu.Lock()
	w.remote.byCluster[id] = r
	w.remote.mu.Unlock()
	_ = r.run(ctx) // informers have no errors
	w.remote.mu.Lock()
	defer w.remote.mu.Unlock()
	if w.remote.byCluster[id] == r { // not replaced by the readers of a new client
		delete(w.remote.byCluster, id)
	}
}
