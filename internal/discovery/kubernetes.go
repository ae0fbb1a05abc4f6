package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/ingest"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/source/settings"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
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

// fromCluster reports whether services and workloads are read from an API server. configFromCluster
// reports whether config objects are, if configSources is empty.
func (o Options) fromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && slices.Contains(o.Registries, "Kubernetes")
}

func (o Options) configFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && o.ConfigDir == ""
}

// newClient returns the client of the API server, or nil if no API server is configured. It sends
// no requests yet.
func (o Options) newClient() (*kube.Client, error) {
	k := o.Kubernetes
	if !o.fromCluster() && !o.configFromCluster() && k.Kubeconfig == "" {
		return nil, nil
	}
	config, err := kube.Options{Kubeconfig: k.Kubeconfig, QPS: k.QPS, Burst: k.Burst, UserAgent: "meshpilot/" + obs.ReadBuild().Version}.RESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return kube.NewClient(config)
}

// clusterName returns the name of the source that reads the API server.
func (o Options) clusterName() string { return "kubernetes/" + o.ClusterID }

// clusterFeed returns the source that reads the API server: its services, its config objects, or
// both. It adds the source to readiness and health.
func (s *server) clusterFeed(services, rules bool) ingest.Feed {
	o := s.options
	var kinds []api.Kind
	if services {
		kinds = append(kubesource.ServiceKinds(), kubesource.ClusterSetKinds()...)
	}
	if rules {
		kinds = append(kinds, kubesource.ConfigKinds()...)
	}
	f := kubesource.New(kubesource.Options{
		Client: s.client, Name: o.clusterName(), Kinds: kinds, Namespaces: o.appNamespaces(), Revision: o.Revision,
		Logger: s.logs.Scope("kube"), Metrics: s.metrics, Recovery: s.recovery,
	})
	s.watched(f)
	if o.Kubernetes.AppNamespace != "" {
		s.log.Info("one namespace is read", "appNamespace", o.Kubernetes.AppNamespace)
	}
	return f
}

func (o Options) appNamespaces() []string {
	if o.Kubernetes.AppNamespace == "" {
		return nil
	}
	return []string{o.Kubernetes.AppNamespace}
}

// watched adds a source of an API server to readiness and health metrics.
func (s *server) watched(f *kubesource.Source) {
	s.ready.why(f.Name(), f.Waiting)
	s.health.watch(f)
}

// settingsFeed returns the source of the mesh configuration and networks, which reads files and,
// with an API server, ConfigMaps.
func (s *server) settingsFeed() *settings.Source {
	o := s.options
	feed := &settings.Source{Mesh: o.MeshConfigFile, Networks: o.NetworksConfigFile}
	if s.client == nil {
		return feed
	}
	name := "istio"
	if o.Revision != "" && o.Revision != "default" {
		name += "-" + o.Revision
	}
	names := []string{name}
	if shared := o.Kubernetes.SharedMeshConfig; shared != "" && shared != name {
		names = append(names, shared)
	}
	objects := kubesource.New(kubesource.Options{
		Client: s.client, Name: "settings of " + o.clusterName(), Kinds: []api.Kind{api.ConfigMap}, Namespaces: []string{o.Namespace}, Names: names,
		Logger: s.logs.Scope("kube"), Metrics: s.metrics, Recovery: s.recovery,
	})
	s.watched(objects)
	s.ready.why(feed.Name(), objects.Waiting)
	feed.ConfigMaps = settings.ConfigMaps{Objects: objects, Namespace: o.Namespace, Name: name, Shared: o.Kubernetes.SharedMeshConfig}
	return feed
}

// Limits of the backoff between attempts to read the mesh configuration at the start.
const (
	minAttempt = 200 * time.Millisecond
	maxAttempt = 10 * time.Second
)

// meshConfig returns the mesh configuration for settings that take effect only at the start. If the
// API server does not answer, it retries with backoff. It returns the default configuration if ctx
// ends.
func (s *server) meshConfig(ctx context.Context, from *settings.Source) *meshconfig.MeshConfig {
	pause, said := minAttempt, ""
	for {
		m, err := from.Load(func(name, key string) ([]byte, error) { return s.configMapKey(ctx, name, key) })
		if err == nil {
			return m
		}
		if text := err.Error(); text != said {
			said = text
			s.log.Warn("the mesh configuration cannot be read yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return mesh.DefaultMeshConfig() // The control plane is stopping, so the value is not used.
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAttempt)
	}
}

// configMapKey returns the value of a key in a ConfigMap of the control plane's namespace. It
// returns nil if the ConfigMap or the key does not exist.
func (s *server) configMapKey(ctx context.Context, name, key string) ([]byte, error) {
	m, err := s.client.Kubernetes.CoreV1().ConfigMaps(s.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if text, there := m.Data[key]; there {
		return []byte(text), nil
	}
	return nil, nil
}

// awaitSources creates the sources if newServer could not, because the mesh configuration that
// selects them is in an API server.
func (s *server) awaitSources(ctx context.Context) error {
	if s.sources != nil {
		return nil
	}
	s.ready.waitingFor([]string{s.settings.Name()})
	return s.newSources(s.meshConfig(ctx, s.settings))
}

// newSources sets s.sources to the feeds of settings, config objects and services. If several feeds
// have the same object, the first takes precedence. It returns an error if there is nothing to
// read.
func (s *server) newSources(m *meshconfig.MeshConfig) error {
	s.feed = s.newConfigFeed(m)
	config, err := s.configFeeds(m)
	if err != nil {
		return err
	}
	fromCluster := slices.ContainsFunc(config, func(f ingest.Feed) bool { return f.Name() == s.options.clusterName() })
	if s.options.fromCluster() && !fromCluster {
		config = append(config, s.clusterFeed(true, false))
	}
	if len(config) == 0 && slices.Contains(s.options.Registries, "Kubernetes") {
		return errors.New("there is nothing to read: give --kubeconfig, or run in a pod, to read an API server; " +
			"--configDir to read files, which may hold Kubernetes objects too; or configSources in the file of --meshConfig")
	}
	s.sources = append([]ingest.Feed{s.settings}, config...)
	return nil
}

// Event increments the counter of objects received from an API server, by istiod's name for the
// kind. Istio's own kinds are counted in inputs.observe, for all sources.
func (x metrics) Event(kind api.Kind, event string) {
	name := map[api.Kind]string{
		api.Service: "Services", api.EndpointSlice: "EndpointSlice", api.Pod: "Pods", api.Node: "Nodes", api.Namespace: "Namespaces",
	}[kind]
	if name != "" {
		x.m.Sources.Events.WithLabelValues(name, event).Inc()
	}
}

// Failed increments the counter of failed lists and watches.
func (x metrics) Failed(kind api.Kind) { x.m.Sources.Failures.WithLabelValues(string(kind)).Inc() }

// sourceHealth updates the gauges of failing kinds and of their age, for each source that reads an
// API server.
func (h *health) sourceHealth(now time.Time) {
	h.m.Sources.Errors.Reset()
	for _, f := range h.sources {
		age := 0.0
		for _, k := range f.Health() {
			if k.Err == nil {
				continue
			}
			h.m.Sources.Errors.WithLabelValues(f.Name(), string(k.Kind)).Set(1)
			age = max(age, now.Sub(k.Since).Seconds())
		}
		h.m.Sources.Age.WithLabelValues(f.Name()).Set(age)
	}
}
