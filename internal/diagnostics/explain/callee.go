package explain

import (
	"net/netip"
	"strings"
)

// peerName is the prefix of the transport description for mutual TLS between proxies of the mesh.
const peerName = "TLS, server name outbound_."

// CalleeCall returns the inbound call that the proxy of the endpoint one receives when a call has
// ended as e. from is the address of the calling proxy; if invalid, call.From is kept. If the
// transport of the endpoint, or else of e, is mutual TLS of the mesh, the identity becomes
// principal in trustDomain (SetIdentity), otherwise it stays. ok is false if the call was not
// forwarded, or not to an IP address.
func CalleeCall(call Call, e Ending, one Endpoint, from netip.Addr, principal, trustDomain string) (c Call, ok bool) {
	to, err := netip.ParseAddrPort(one.Address)
	if err != nil || e.Kind != Forwarded {
		return Call{}, false
	}
	call.Direction, call.To, call.Request, call.Carries, call.ALPN, call.ServerName = Inbound, to, e.Upstream, "", nil, ""
	if e.Protocol == "HTTP/2" {
		call.Carries = HTTP2
	}
	if from.IsValid() {
		call.From = netip.AddrPortFrom(from, 0)
	}
	transport := e.Transport
	if one.Transport != "" {
		transport = one.Transport
	}
	if strings.HasPrefix(transport, peerName) {
		_, call.ServerName, _ = strings.Cut(transport, "server name ")
		call.SetIdentity(principal, trustDomain)
	}
	return call, true
}
