package debug

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// explainCallee explains the forwarded call at the first workload that it may reach and whose proxy
// the caller of the page may see. The call is inbound there. If the calling proxy uses mutual TLS
// of the mesh, the call has the identity of that proxy. It returns nil if there is no
// such workload.
func (e *explanation) explainCallee(path *explain.Path) (*explain.Path, error) {
	var from netip.Addr
	if len(e.proxy.Addresses) > 0 {
		from = e.proxy.Addresses[0]
	}
	for _, end := range path.Endings {
		for _, one := range end.Endpoints {
			call, ok := explain.CalleeCall(path.Call, end, one, from, accountOf(e.proxy), e.view.Settings.TrustDomains()[0])
			if !ok {
				continue
			}
			c, ok := e.connectionAt(e.asker, call.To.Addr())
			if !ok {
				continue
			}
			return explain.Explain(e.resourcesOf(c, readNames{}), call)
		}
	}
	return nil, nil
}

// connectionAt returns the connection of the sidecar at the address. It reports false if no sidecar
// with the address is connected, or the caller of the page may not see it.
func (p *Pages) connectionAt(asker Caller, a netip.Addr) (push.Connection, bool) {
	list := p.visibleConnections(asker)
	i := slices.IndexFunc(list, func(c push.Connection) bool {
		return c.Proxy.Type == mesh.SidecarProxy && slices.Contains(c.Proxy.Addresses, a)
	})
	if i < 0 {
		return push.Connection{}, false
	}
	return list[i], true
}

// accountOf returns the "namespace/account" in a proxy's certificate. It is the account that the
// proxy was authenticated as. If the proxy is not authenticated, it is the account in its metadata.
func accountOf(proxy *mesh.Proxy) string {
	if proxy.Account.Name != "" {
		return proxy.Account.Namespace + "/" + proxy.Account.Name
	}
	return proxy.Namespace + "/" + proxy.Metadata.ServiceAccount
}
