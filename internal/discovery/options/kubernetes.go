package options

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Kubernetes configures which API server is read, and how. The zero value reads none.
type Kubernetes struct {
	// Kubeconfig is the path of a kubeconfig. If empty, the service account of the pod is used if
	// InCluster is true.
	Kubeconfig string
	InCluster  bool
	// QPS and Burst limit the requests to the API server; 0 is 80 per second and a burst of 160.
	QPS   float32
	Burst int
	// AppNamespace is the one namespace that is read, of an API server and of folders. If empty,
	// all are read (ISTIO_WATCH_NAMESPACE).
	AppNamespace string
	// Ignored are the kinds that are not read.
	Ignored IgnoredResources
	// SharedMeshConfig is a ConfigMap in the control plane's namespace with values for fields that
	// its own mesh configuration does not set. If empty, there is none (SHARED_MESH_CONFIG).
	SharedMeshConfig string
}

// ServicesFromCluster reports whether services and workloads are read from an API server. It takes
// a kubeconfig or InCluster, and Kubernetes among the registries.
func (o Options) ServicesFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && slices.Contains(o.Registries, "Kubernetes")
}

// ConfigFromCluster reports whether config objects are read from an API server if configSources is
// empty. It takes a kubeconfig or InCluster, and no ConfigDir.
func (o Options) ConfigFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && o.ConfigDir == ""
}

// NewClient returns the client of the API server. It returns nil without an error if there is no
// kubeconfig, and neither services nor config objects are read from an API server. It sends no
// requests yet. It returns an error if the kubeconfig, or the pod's service account, cannot be
// read.
func (o Options) NewClient() (*kube.Client, error) {
	k := o.Kubernetes
	if !o.ServicesFromCluster() && !o.ConfigFromCluster() && k.Kubeconfig == "" {
		return nil, nil
	}
	config, err := kube.Options{
		Kubeconfig: k.Kubeconfig, QPS: k.QPS, Burst: k.Burst, UserAgent: userAgent(),
	}.RESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return kube.NewClient(config)
}

// SecretsClient returns the client that reads the Secrets of remote clusters: client, which
// NewClient returned, or with a kubeconfig and Remote.LocalSecrets a client of the cluster that
// runs this pod. It returns an error if that client cannot be created.
func (o Options) SecretsClient(client *kube.Client) (*kube.Client, error) {
	if !o.Remote.LocalSecrets || o.Kubernetes.Kubeconfig == "" {
		return client, nil
	}
	config, err := kube.Options{UserAgent: userAgent()}.RESTConfig()
	if err != nil {
		return nil, fmt.Errorf("LOCAL_CLUSTER_SECRET_WATCHER: %w", err)
	}
	if client, err = kube.NewClient(config); err != nil {
		return nil, fmt.Errorf("LOCAL_CLUSTER_SECRET_WATCHER: %w", err)
	}
	return client, nil
}

// userAgent returns the User-Agent header of requests to API servers.
func userAgent() string { return "meshpilot/" + obs.ReadBuild().Version }

// ClusterFeedName returns the name of the source that reads the API server.
func (o Options) ClusterFeedName() string { return "kubernetes/" + o.ClusterID }

// ConfigReaders returns the SPIFFE IDs that may read config objects: ConfigClients, or if that is
// nil the istiod of the control plane's own namespace. An empty ConfigClients permits none.
func (o Options) ConfigReaders(trustDomain string) []string {
	if o.ConfigClients != nil {
		return o.ConfigClients
	}
	return []string{fmt.Sprintf("spiffe://%s/ns/%s/sa/istiod", trustDomain, o.Namespace)}
}

// AppNamespaces returns the namespaces that are read, or nil for all.
func (o Options) AppNamespaces() []string {
	if o.Kubernetes.AppNamespace == "" {
		return nil
	}
	return []string{o.Kubernetes.AppNamespace}
}

// AliasMap returns ClusterAliases as a map from alias to cluster, which is never nil. The options
// must be valid; entries without "=" are left out.
func (o Options) AliasMap() map[mesh.ClusterID]mesh.ClusterID {
	m := map[mesh.ClusterID]mesh.ClusterID{}
	for _, p := range o.ClusterAliases {
		if alias, cluster, ok := strings.Cut(p, "="); ok {
			m[mesh.ClusterID(alias)] = mesh.ClusterID(cluster)
		}
	}
	return m
}

// ResolveCluster returns the cluster that an alias refers to, or the name itself if it is no alias.
// The options must be valid.
func (o Options) ResolveCluster(name string) mesh.ClusterID {
	id := mesh.ClusterID(name)
	return cmp.Or(o.AliasMap()[id], id)
}

// MaxAge returns MaxServerConnectionAge, or 0, which is no limit, for the flag's default of about
// three hundred years.
func (k Keepalive) MaxAge() time.Duration {
	if k.MaxServerConnectionAge == math.MaxInt64 {
		return 0
	}
	return k.MaxServerConnectionAge
}
