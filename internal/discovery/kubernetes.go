package discovery

import (
	"context"
	"errors"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/source/settings"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// clusterFeed returns the source that reads the API server: its services, its config objects, or
// both. It adds the source to the health metrics, and logs if only one namespace is read.
func (s *server) clusterFeed(services, rules bool) ingest.Feed {
	o := s.options
	f := kubesource.New(kubesource.Options{
		Client: s.client, Name: o.ClusterFeedName(), Kinds: o.LocalKinds(services, rules),
		Namespaces: o.AppNamespaces(), Revision: o.Revision,
		Logger: s.logs.Scope("kube"), Metrics: kubesource.NewMetrics(&s.metrics.Sources), Recovery: s.recovery,
	})
	s.health.AddSource(f)
	if o.Kubernetes.AppNamespace != "" {
		s.log.Info("one namespace is read", "appNamespace", o.Kubernetes.AppNamespace)
	}
	return f
}

// settingsFeed returns the source of the mesh configuration and networks, which reads files and,
// with an API server, ConfigMaps. In that case the source of the ConfigMaps is added to the health
// metrics, and explains on the readiness page why the feed is not in sync.
func (s *server) settingsFeed() *settings.Source {
	o := s.options
	feed := &settings.Source{Mesh: o.MeshConfigFile, Networks: o.NetworksConfigFile}
	if s.client == nil {
		return feed
	}
	maps := settings.NewConfigMaps(o.Namespace, o.Revision, o.Kubernetes.SharedMeshConfig)
	objects := kubesource.New(kubesource.Options{
		Client: s.client, Name: "settings of " + o.ClusterFeedName(), Kinds: []api.Kind{api.ConfigMap},
		Namespaces: []string{o.Namespace}, Names: maps.Names(),
		Logger: s.logs.Scope("kube"), Metrics: kubesource.NewMetrics(&s.metrics.Sources), Recovery: s.recovery,
	})
	s.health.AddSource(objects)
	s.ready.Explain(feed.Name(), objects.Waiting)
	maps.Objects = objects
	feed.ConfigMaps = maps
	return feed
}

// awaitSources creates the sources if newServer could not, because the mesh configuration that
// selects them is in an API server. It blocks until that is read or ctx ends, and returns the error
// of newSources.
func (s *server) awaitSources(ctx context.Context) error {
	if s.sources != nil {
		return nil
	}
	s.ready.SetWaiting([]string{s.settings.Name()})
	return s.newSources(s.settings.AwaitMeshConfig(ctx, func(ctx context.Context, name, key string) ([]byte, error) {
		return s.client.ConfigMapKey(ctx, s.options.Namespace, name, key)
	}, s.log))
}

// newSources sets s.feed, s.openedSources and s.sources, the feeds of settings, config objects and
// services. If several feeds have the same object, the first takes precedence. The readiness page
// explains feeds that are not in sync. It returns an error if a feed is invalid, or if the registry
// Kubernetes is selected and there is nothing to read.
func (s *server) newSources(m *meshconfig.MeshConfig) error {
	s.feed = s.newConfigFeed(m)
	config, err := s.configFeeds(m)
	if err != nil {
		return err
	}
	fromCluster := slices.ContainsFunc(config, func(f ingest.Feed) bool { return f.Name() == s.options.ClusterFeedName() })
	if s.options.ServicesFromCluster() && !fromCluster {
		config = append(config, s.clusterFeed(true, false))
	}
	if config, err = s.options.AppendRegistryFeeds(config, s.logs, s.metrics, s.recovery); err != nil {
		return err
	}
	if len(config) == 0 && slices.Contains(s.options.Registries, "Kubernetes") {
		return errors.New("there is nothing to read: give --kubeconfig, or run in a pod, to read an API server; " +
			"--configDir to read files, which may hold Kubernetes objects too; or configSources in the file of --meshConfig; or --registries Consul")
	}
	for _, f := range config {
		s.ready.ExplainSource(f)
	}
	s.sources = append([]ingest.Feed{s.settings}, config...)
	s.openedSources.Store(&config)
	return nil
}
