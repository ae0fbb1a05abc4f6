package discovery

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// vouch reports whether a proxy may be sent the private keys of its namespace, judging by its
// connection alone. Over TLS it requires an authenticated identity of the namespace, whose account
// is returned. In plain text it requires that SecretsPlainText admits the peer.
//
// The API server of the account's cluster is asked for its permissions. That cluster is the one
// whose API server verified the identity; otherwise a workload could choose the judge of its own
// permissions. An identity that only a certificate proves is judged by the control plane's own
// cluster. A proxy that claims to be in any other cluster is sent no keys.
func (o Options) vouch(p *mesh.Proxy, h xds.Hello) (account mesh.Account, vouched bool) {
	if !h.Secure {
		return mesh.Account{}, o.SecretsPlainText.AdmitsPeer(h.Peer)
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
