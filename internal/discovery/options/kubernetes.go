package options

import (
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
	// all are read.
	AppNamespace string
	// SharedMeshConfig is a ConfigMap in the control plane's namespace with values for fields that
	// its own mesh configuration does not set. If empty, there is none (SHARED_MESH_CONFIG).
	SharedMeshConfig string
}

// ServicesFromCluster reports whether services and workloads are read from an API server.
func (o Options) ServicesFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && slices.Contains(o.Registries, "Kubernetes")
}

// ConfigFromCluster reports whether config objects are read from an API server if configSources is
// empty.
func (o Options) ConfigFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && o.ConfigDir == ""
}

// NewClient returns the client of the API server, or nil if no API server is configured. It sends
// no requests yet.
func (o Options) NewClient() (*kube.Client, error) {
	k := o.Kubernetes
	if !o.ServicesFromCluster() && !o.ConfigFromCluster() && k.Kubeconfig == "" {
		return nil, nil
	}
	config, err := kube.Options{
		Kubeconfig: k.Kubeconfig, QPS: k.QPS, Burst: k.Burst, UserAgent: "meshpilot/" + obs.ReadBuild().Version,
	}.RESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return kube.NewClient(config)
}

// ClusterFeedName returns the name of the source that reads the API server.
func (o Options) ClusterFeedName() string { return "kubernetes/" + o.ClusterID }

// AppNamespaces returns the namespaces that are read, or nil for all.
func (o Options) AppNamespaces() []string {
	if o.Kubernetes.AppNamespace == "" {
		return nil
	}
	return []string{o.Kubernetes.AppNamespace}
}

// AliasMap returns ClusterAliases as a map from alias to cluster. The options must be valid.
func (o Options) AliasMap() map[mesh.ClusterID]mesh.ClusterID {
	m := map[mesh.ClusterID]mesh.ClusterID{}
	for _, p := range o.ClusterAliases {
		if alias, cluster, ok := strings.Cut(p, "="); ok {
			m[mesh.ClusterID(alias)] = mesh.ClusterID(cluster)
		}
	}
	return m
}

// MaxAge returns MaxServerConnectionAge, or 0, which is no limit, for the flag's default of about
// three hundred years.
func (k Keepalive) MaxAge() time.Duration {
	if k.MaxServerConnectionAge == math.MaxInt64 {
		return 0
	}
	return k.MaxServerConnectionAge
}
