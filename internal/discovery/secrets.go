package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/secrets"
)

// newSecrets creates the sources of Secrets, of the config cluster and of remote clusters, and the
// reader that requests from them what proxies and plugins need. Without an API server there is only
// the reader, which then decides about private keys that are read from files.
func (s *server) newSecrets() {
	o := secrets.Options{
		Cluster: mesh.ClusterID(s.options.ClusterID), Aliases: s.options.AliasMap(), PlainText: s.options.SecretsPlainText,
		Snapshot: s.current.Load, Log: s.log,
	}
	if s.client != nil {
		from := credential.Options{
			Client: s.client, Reach: s.options.SecretsScope,
			Log: s.logs.Scope("secrets"), Failed: s.metrics.Clusters.SecretErrors.Inc,
		}
		s.credentials, s.remoteCredentials = credential.New(from), credential.NewClusters(from)
		s.pullSecrets = credential.NewPullSecrets(s.credentials, plugin.PullSecret)
		o.Config, o.Remote = s.credentials, s.remoteCredentials
	}
	s.secrets = secrets.New(o)
}

// secretSubscriptions returns the callback for changes of secret subscriptions, or nil without an
// API server.
func (s *server) secretSubscriptions() func(push.Subscription) {
	if s.credentials == nil {
		return nil
	}
	return s.secrets.UpdateSubscription
}

// followClusters adds each remote cluster as a source of Secrets while the cluster is known, until
// ctx ends. It returns at once unless Remote.ReadCredentials is set and remote clusters are read.
func (s *server) followClusters(ctx context.Context) {
	if s.clusters == nil || s.credentials == nil || !s.options.Remote.ReadCredentials {
		return
	}
	s.clusters.Each(ctx, s.remoteCredentials.Follower(s.clusters.Client))
}
