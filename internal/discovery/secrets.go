package discovery

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// vouch reports whether a proxy may be sent the private keys of its namespace as far as its connection shows: over TLS if it has proved
// an identity of the namespace, whose account is returned, and in plain text if the options allow it.
//
// The cluster of the account, whose API server is asked for its rights, is the one whose API server vouched for it: otherwise a workload
// could choose a judge. An identity that no API server vouches for, by a certificate alone, is judged by the control plane's own
// cluster. A proxy that claims to be in another cluster than that is sent no keys.
func (o Options) vouch(p *mesh.Proxy, h xds.Hello) (account mesh.Account, vouched bool) {
	if !h.Secure {
		return mesh.Account{}, o.SecretsPlainText.Admits(h.Peer)
	}
	own := mesh.ClusterID(o.ClusterID)
	cluster, claimed := mesh.ClusterID(h.Cluster), p.ClusterID
	if is, ok := aliases(o.ClusterAliases)[cluster]; ok {
		cluster = is
	}
	if cluster == "" {
		cluster = own
	}
	if claimed == "" {
		claimed = own
	}
	if claimed != cluster {
		return mesh.Account{}, false
	}
	for _, text := range h.Identities {
		id, err := spiffe.Parse(text)
		if err != nil {
			continue
		}
		if a, ok := id.Account(); ok && a.Namespace == p.Namespace {
			return mesh.Account{Cluster: cluster, Namespace: a.Namespace, Name: a.Name}, true
		}
	}
	return mesh.Account{}, false
}
