package discovery

import (
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/spiffe"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// vouch says whether a proxy may be sent the private keys of its namespace as far as its connection tells: who has shown to be of
// an identity there, whose account is given, and in plain text whom the options let.
func (o Options) vouch(p *mesh.Proxy, h xds.Hello) (account mesh.Account, vouched bool) {
	if !h.Secure {
		return mesh.Account{}, o.SecretsPlainText.Admits(h.Peer)
	}
	for _, text := range h.Identities {
		id, err := spiffe.Parse(text)
		if err != nil {
			continue
		}
		if a, ok := id.Account(); ok && a.Namespace == p.Namespace {
			return mesh.Account{Cluster: p.ClusterID, Namespace: a.Namespace, Name: a.Name}, true
		}
	}
	return mesh.Account{}, false
}
