package discovery

import (
	"github.com/meshpilot/meshpilot/internal/identity/authority"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// newAuthority returns the certificate authority and the authentication of callers. It returns an
// error if authority.New refuses the options.
func (s *server) newAuthority() (*authority.Server, error) {
	o := s.options
	return authority.New(authority.Options{
		Settings: o.Authority, Namespace: o.Namespace, Revision: o.Revision, ClusterID: o.ClusterID,
		ServingFiles: ca.FileSource{Certificate: o.TLSCertFile, Key: o.TLSKeyFile, Roots: o.CACertFile},
		Client:       s.client, ClusterClient: s.clusterClient, UnsyncedClusters: s.clusters.Unsynced, Elections: s.elections,
		Snapshot: s.current.Load, Synced: s.ready.Synced(), SettingsChanged: s.settingsChanged.Changed,
		Metrics: &s.metrics.Authority, Log: s.logs.Scope("ca"),
	})
}

// clusterClient returns the client of a cluster by its name or an alias, or nil if the cluster is
// unknown. The own cluster has s.client.
func (s *server) clusterClient(name string) *kube.Client {
	id := s.options.ResolveCluster(name)
	if s.client != nil && id == mesh.ClusterID(s.options.ClusterID) {
		return s.client
	}
	return s.clusters.Client(id)
}

// admit returns an error for a proxy whose claimed identity differs from the identity that its
// connection proves. It may set the proxy's service account (authority.AdmitProxy).
func (s *server) admit(p *mesh.Proxy, h xds.Hello) error {
	return s.authority.AdmitProxy(p, authority.Peer{Address: h.Peer, Secure: h.Secure, Identities: h.Identities})
}
