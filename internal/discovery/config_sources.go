package discovery

import (
	"errors"
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/source/configsource"
	"github.com/meshpilot/meshpilot/internal/ingest/source/file"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
)

// configFeeds returns the feeds of config objects, in order. They are listed in
// meshConfig.configSources; if that is empty, the only one is the API server or --configDir.
// Without any of these it returns nil. It returns an error if a source is invalid or listed twice.
// As in Istio the list is read once, so a change requires a restart.
func (s *server) configFeeds(m *meshconfig.MeshConfig) ([]ingest.Feed, error) {
	if len(m.ConfigSources) == 0 {
		if s.options.ConfigFromCluster() {
			return []ingest.Feed{s.clusterFeed(s.options.ServicesFromCluster(), true)}, nil
		}
		if s.options.ConfigDir == "" {
			return nil, nil
		}
		f, err := s.fileFeed(s.options.ConfigDir)
		if err != nil {
			return nil, fmt.Errorf("--configDir: %w", err)
		}
		return []ingest.Feed{f}, nil
	}
	if s.options.ConfigDir != "" {
		s.log.Warn("--configDir is not read, for meshConfig.configSources takes its place; add fs://"+s.options.ConfigDir+" to it to read both",
			"configDir", s.options.ConfigDir)
	}
	o := s.options
	return configsource.Open(m.ConfigSources, configsource.Openers{
		Cluster: func() (ingest.Feed, error) {
			if s.client == nil {
				return nil, errors.New("there is no API server: give --kubeconfig, or run in a pod")
			}
			return s.clusterFeed(o.ServicesFromCluster(), true), nil
		},
		Dir: s.fileFeed,
		XDS: xds.Options{
			Node:   xds.Node{Namespace: o.Namespace, PodName: o.PodName, ClusterID: mesh.ClusterID(o.ClusterID), Domain: o.Domain},
			Logger: s.logs.Scope("adsc"), Recovery: s.recovery,
		},
	})
}

// fileFeed returns the source of the files below a directory. It returns an error if the directory
// cannot be read.
func (s *server) fileFeed(dir string) (ingest.Feed, error) {
	s.positions.AddDirectory(dir)
	f := file.New(file.Options{Dir: dir, Namespaces: s.options.AppNamespaces(), Logger: s.logs.Scope("file"), Recovery: s.recovery})
	return f, f.Check()
}

// newConfigFeed returns the server of this control plane's config objects to other control planes.
func (s *server) newConfigFeed(m *meshconfig.MeshConfig) *feed.Feed {
	o := s.options
	return feed.New(feed.Options{
		Recovery: s.recovery,
		Access:   feed.Access{Identities: o.ConfigReaders(m.TrustDomain), PlainText: o.ConfigPlainText}, Logger: s.logs.Scope("feed"), Metrics: s.xdsMetrics,
	})
}
