package debug

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// peerName is the prefix of the transport description for mutual TLS between proxies of the mesh.
const peerName = "TLS, server name outbound_."

// explainCallee explains the forwarded call at the first workload that it may reach and whose proxy
// the caller of the page may see. The call is inbound there. If the calling proxy uses mutual TLS
// of the mesh, the call has the identity of that proxy. It returns nil if there is no
// such workload.
func (e *explanation) explainCallee(path *explain.Path) (*explain.Path, error) {
	for _, end := range path.Endings {
		for _, one := range end.Endpoints {
			to, err := netip.ParseAddrPort(one.Address)
			if err != nil || end.Kind != explain.Forwarded {
				continue
			}
			c, ok := e.connectionAt(e.asker, to.Addr())
			if !ok {
				continue
			}
			call := path.Call
			call.Direction, call.To, call.Request, call.Carries, call.ALPN, call.ServerName = explain.Inbound, to, end.Upstream, "", nil, ""
			if end.Protocol == "HTTP/2" {
				call.Carries = explain.HTTP2
			}
			if len(e.proxy.Addresses) > 0 {
				call.From = netip.AddrPortFrom(e.proxy.Addresses[0], 0)
			}
			transport := end.Transport
			if one.Transport != "" {
				transport = one.Transport
			}
			if strings.HasPrefix(transport, peerName) {
				_, call.ServerName, _ = strings.Cut(transport, "server name ")
				call.SetIdentity(accountOf(e.proxy), e.view.Settings.TrustDomains()[0])
			}
			return explain.Explain(e.resourcesOf(c, readNames{}), call)
		}
	}
	return nil, nil
}

// connectionAt returns the connection of the sidecar at the address. It ignores proxies that the
// caller of the page may not see.
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
