package secrets

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// verifiedAccount reports whether a proxy may be sent the private keys of its namespace, judging by
// its connection alone. Over TLS it requires an authenticated identity of the namespace, whose
// account is returned. In plain text it requires that Options.PlainText admits the peer.
//
// The API server of the account's cluster is asked for its permissions. That cluster is the one
// whose API server verified the identity; otherwise a workload could choose the judge of its own
// permissions. An identity that only a certificate proves is judged by the control plane's own
// cluster. A proxy that claims to be in any other cluster is sent no keys.
func (r *Reader) verifiedAccount(p *mesh.Proxy, h server.Hello) (account mesh.Account, ok bool) {
	if !h.Secure {
		return mesh.Account{}, r.o.PlainText.AdmitsPeer(h.Peer)
	}
	cluster, claimed := mesh.ClusterID(h.Cluster), p.ClusterID
	if name, ok := r.o.Aliases[cluster]; ok {
		cluster = name
	}
	if cluster == "" {
		cluster = r.o.Cluster
	}
	if claimed == "" {
		claimed = r.o.Cluster
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
