package discovery

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/source/configsource"
	"github.com/meshpilot/meshpilot/internal/ingest/source/file"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
)

// configFeeds returns the feeds of config objects, in order, or nil if there are none. They are
// read from meshConfig.configSources, else from --configDir, else from the API server. It returns
// an error if a source is invalid or listed twice. As in Istio the list is read once, so a change
// requires a restart.
func (s *server) configFeeds(m *meshconfig.MeshConfig) ([]ingest.Feed, error) {
	o, cluster := s.options, mesh.ClusterID(s.options.ClusterID)
	from := configsource.Options{
		ConfigDir: o.ConfigDir, Dir: s.fileFeed, Log: s.log,
		XDS: xds.Options{
			Node:   xds.Node{Namespace: o.Namespace, PodName: o.PodName, ClusterID: cluster, Domain: o.Domain},
			Logger: s.logs.Scope("adsc"), Recovery: s.recovery,
		},
	}
	if s.client != nil {
		from.Cluster = func() ingest.Feed { return s.clusterFeed(o.ServicesFromCluster(), true) }
	}
	return configsource.Open(m.ConfigSources, from)
}

// fileFeed returns the source of the files below a directory, and adds the directory to
// s.positions. It returns an error if the directory cannot be read.
func (s *server) fileFeed(dir string) (ingest.Feed, error) {
	s.positions.AddDirectory(dir)
	o := file.Options{Dir: dir, Namespaces: s.options.AppNamespaces(), Logger: s.logs.Scope("file"), Recovery: s.recovery}
	f := file.New(o)
	return f, f.Check()
}

// newConfigFeed returns the server of this control plane's config objects to other control planes.
// It permits the identities of ConfigReaders, and clients without TLS by ConfigPlainText.
func (s *server) newConfigFeed(m *meshconfig.MeshConfig) *feed.Feed {
	o := s.options
	return feed.New(feed.Options{
		Access: feed.Access{Identities: o.ConfigReaders(m.TrustDomain), PlainText: o.ConfigPlainText},
		Logger: s.logs.Scope("feed"), Metrics: s.xdsMetrics, Recovery: s.recovery,
	})
}
