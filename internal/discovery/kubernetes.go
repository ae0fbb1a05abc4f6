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

// Kubernetes is which API server is read, and how. The zero value is none.
type Kubernetes struct {
	// Kubeconfig is a file; empty: the service account of the pod, if InCluster says that this is one.
	Kubeconfig string
	InCluster  bool
	// QPS and Burst bound the requests to it in a second; 0: 80 and 160.
	QPS   float32
	Burst int
	// AppNamespace is the one namespace that is read, of an API server and of folders. If empty,
	// all are read.
	AppNamespace string
	// SharedMeshConfig is a ConfigMap of the control plane's namespace that counts for what its own does not say; empty: none.
	// SHARED_MESH_CONFIG.
	SharedMeshConfig string
}

// fromCluster says whether services and workloads are read from an API server, configFromCluster whether rules are that no
// configSources name.
func (o Options) fromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && slices.Contains(o.Registries, "Kubernetes")
}

func (o Options) configFromCluster() bool {
	return (o.Kubernetes.Kubeconfig != "" || o.Kubernetes.InCluster) && o.ConfigDir == ""
}

// newClient makes the client of the API server, nil if none is to be read. It asks nothing yet.
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

// clusterName is the name of the source that reads the API server.
func (o Options) clusterName() string { return "kubernetes/" + o.ClusterID }

// clusterFeed reads the API server: its services, its rules, or both.
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

// watched notes a source of an API server, for readiness and metrics.
func (s *server) watched(f *kubesource.Source) {
	s.ready.why(f.Name(), f.Waiting)
	s.health.watch(f)
}

// settingsFeed reads the mesh configuration and networks, from files and ConfigMaps.
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

// Between attempts to read the mesh configuration at the start.
const (
	minAttempt = 200 * time.Millisecond
	maxAttempt = 10 * time.Second
)

// meshConfig reads the mesh configuration once, for what only counts at the start. It asks an API server until it answers.
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
			return mesh.DefaultMeshConfig() // nobody will read it
		case <-time.After(pause):
		}
		pause = min(2*pause, maxAttempt)
	}
}

// configMapKey gives the text of a key of a ConfigMap in the control plane's namespace, nil if it is not there.
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

// awaitSources makes the sources whose choice takes a mesh configuration that is in an API server.
func (s *server) awaitSources(ctx context.Context) error {
	if s.sources != nil {
		return nil
	}
	s.ready.waitingFor([]string{s.settings.Name()})
	return s.newSources(s.meshConfig(ctx, s.settings))
}

// newSources are where settings, config and services come from. Of an object that several have, the first one's counts.
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

// Event counts an object that came from an API server, under the names that istiod has for the kinds of its registry. Istio's own
// kinds are counted where all sources meet.
func (x metrics) Event(kind api.Kind, event string) {
	name := map[api.Kind]string{
		api.Service: "Services", api.EndpointSlice: "EndpointSlice", api.Pod: "Pods", api.Node: "Nodes", api.Namespace: "Namespaces",
	}[kind]
	if name != "" {
		x.m.Sources.Events.WithLabelValues(name, event).Inc()
	}
}

// Failed counts a list or watch that failed.
func (x metrics) Failed(kind api.Kind) { x.m.Sources.Failures.WithLabelValues(string(kind)).Inc() }

// sourceHealth shows how it stands with the sources of API servers.
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
