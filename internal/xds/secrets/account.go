package secrets

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// verifiedAccount reports whether a proxy may be sent the private keys of its namespace, judging by
// its connection alone. Over TLS it requires an authenticated identity of the proxy's namespace,
// and returns the account of the first such one. In plain text it requires only that
// Options.PlainText admits the peer; then account is zero, as on refusal.
//
// Account.Cluster is the cluster whose API server verified the identity (after Options.Aliases),
// and the judge of the account's permissions; otherwise a workload could choose its judge. It is
// the control plane's own cluster if only a certificate proves the identity. Over TLS, a proxy
// whose ClusterID is another one is refused; an empty ClusterID is the own cluster.
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
