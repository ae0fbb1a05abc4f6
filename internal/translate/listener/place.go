package listener

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// place is an address and port that one listener answers for. Every place has a listener of its own, named by it: Envoy
// refuses a second listener with an address that another has, and if several addresses shared a listener, one that moves
// to another would be there twice for the length of an update.
type place struct {
	address string
	port    uint32
}

// family is which addresses of a kind proxies have. The first one names listeners, the other one, if any, goes with it:
// what all proxies of a View have in common never moves.
type family struct {
	wildcard, loopback []string
	ipv4, ipv6         bool
}

// familyOf gives the family of proxies. Those that told no address are taken to have IPv4.
func familyOf(k view.Key) family {
	switch {
	case k.IPv4 && k.IPv6:
		return family{[]string{"0.0.0.0", "::"}, []string{"127.0.0.1", "::1"}, true, true}
	case k.IPv6:
		return family{[]string{"::"}, []string{"::1"}, false, true}
	default:
		return family{[]string{"0.0.0.0"}, []string{"127.0.0.1"}, true, false}
	}
}

// has says whether proxies can reach an address.
func (f family) has(a netip.Addr) bool {
	a = a.Unmap()
	return a.Is4() && f.ipv4 || a.Is6() && f.ipv6
}

// at gives the place at an address, and what else the listener there answers for.
func (f family) at(address string, port uint32) (at place, more []string) {
	for _, group := range [][]string{f.wildcard, f.loopback} {
		if slices.Contains(group, address) {
			return place{group[0], port}, group[1:]
		}
	}
	return place{address, port}, nil
}

// bindAddress reads an address that a Sidecar binds a listener to; ok is false for one that no listener can be at.
func bindAddress(text string) (address string, ok bool) {
	if isSocket(text) {
		return text, len(text)-len(socketScheme) <= maxSocketPath
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return "", false
	}
	return a.Unmap().String(), true
}

const (
	socketScheme = "unix://"
	// maxSocketPath is the length of sockaddr_un.sun_path on Linux without its final zero.
	maxSocketPath = 107
)

func isSocket(address string) bool { return strings.HasPrefix(address, socketScheme) }

// Ports of a proxy that are not in MeshConfig.
const (
	statusPort = 15021 // the bootstrap's listener for readiness
	statsPort  = 15090 // the bootstrap's listener for metrics
	debugPort  = 15004 // the agent's
	dnsPort    = 15053 // the agent's
)

// reserved says whether a port is taken by a listener on all addresses that every proxy has.
func reserved(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	return port == statusPort || port == statsPort || port == uint32(m.GetProxyListenPort()) || port == uint32(m.GetProxyInboundListenPort())
}

// occupied says whether a port cannot be listened on, because something of every proxy listens there already.
func occupied(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	proxy := m.GetDefaultConfig()
	return reserved(s, port) || port == debugPort || port == dnsPort || port == uint32(proxy.GetProxyAdminPort()) ||
		port == uint32(proxy.GetStatusPort()) || port == uint32(m.GetProxyHttpPort())
}
