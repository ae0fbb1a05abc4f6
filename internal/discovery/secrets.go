package discovery

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/mesh"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// mayHaveKeys says whether a proxy may be sent the private keys of its namespace: who shows a certificate of an identity there, and
// in plain text whom the options let.
func (o Options) mayHaveKeys(p *mesh.Proxy, h xds.Hello) bool {
	if !h.Secure {
		return o.SecretsPlainText.Admits(h.Peer)
	}
	for _, id := range h.Identities {
		if rest, ok := strings.CutPrefix(id, "spiffe://"); ok {
			if _, path, _ := strings.Cut(rest, "/"); strings.HasPrefix(path, "ns/"+p.Namespace+"/sa/") {
				return true
			}
		}
	}
	return false
}
