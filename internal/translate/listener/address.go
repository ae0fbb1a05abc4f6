package listener

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// listenAddress is the address and port of a listener. Every one has its own listener, named after
// it. Envoy refuses two listeners with the same address. If several addresses shared a listener, an
// address that moves to another listener would exist twice during an update.
type listenAddress struct {
	address string
	port    uint32
}

// name returns the name of the listener at the address.
func (a listenAddress) name() string { return listenerName(a.address, a.port) }

// family is the wildcard and loopback addresses of proxies. The first one names listeners, and the
// other one, if any, is additional: so the same addresses always belong together.
type family struct {
	wildcard, loopback []string
	ipv4, ipv6         bool
	// lookup resolves hosts in the families that destination.LookupFamily returns.
	lookup Lookup
}

// familyOf returns the addresses of the View's proxies. Proxies without known addresses are assumed
// to have IPv4 only.
func familyOf(v *view.View) family {
	lookup := Lookup{Family: destination.LookupFamily(v)}
	switch {
	case v.Key.IPv4 && v.Key.IPv6:
		return family{[]string{wildcard4, "::"}, []string{"127.0.0.1", "::1"}, true, true, lookup}
	case v.Key.IPv6:
		return family{[]string{"::"}, []string{"::1"}, false, true, lookup}
	default:
		return family{[]string{wildcard4}, []string{"127.0.0.1"}, true, false, lookup}
	}
}

// includes reports whether an address, which may be IPv4-mapped, is of a family that the proxies
// have.
func (f family) includes(a netip.Addr) bool {
	a = a.Unmap()
	return a.Is4() && f.ipv4 || a.Is6() && f.ipv6
}

// at returns the address that names the listener for address and port, and its additional
// addresses. A wildcard or loopback address of the family becomes the first of its kind, with the
// other one, if any, as additional. A socket has port 0. Any other address is returned as it is.
func (f family) at(address string, port uint32) (at listenAddress, more []string) {
	for _, group := range [][]string{f.wildcard, f.loopback} {
		if slices.Contains(group, address) {
			return listenAddress{group[0], port}, group[1:]
		}
	}
	if config.IsSocket(address) {
		port = 0
	}
	return listenAddress{address, port}, nil
}

// Ports of a proxy that are not in MeshConfig.
const (
	statusPort = 15021 // the bootstrap's listener for readiness
	statsPort  = 15090 // the bootstrap's listener for metrics
	debugPort  = 15004 // the agent's
	dnsPort    = 15053 // the agent's
)

// isReserved reports whether every proxy listens on the port at all addresses: status, metrics, and
// the captured outbound and inbound connections.
func isReserved(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	return port == statusPort || port == statsPort || port == uint32(m.GetProxyListenPort()) ||
		port == uint32(m.GetProxyInboundListenPort())
}

// isOccupied reports whether every proxy already listens on the port, on any address: its reserved
// ports, and its debug, DNS, admin, status and HTTP proxy ports.
func isOccupied(s *snapshot.Settings, port uint32) bool {
	m := s.Mesh
	proxy := m.GetDefaultConfig()
	return isReserved(s, port) || port == debugPort || port == dnsPort || port == uint32(proxy.GetProxyAdminPort()) ||
		port == uint32(proxy.GetStatusPort()) || port == s.HTTPProxyPort()
}

// binding is where a Sidecar binds an egress listener.
type binding struct {
	// address is the address to listen at; "" for the addresses of the services.
	address string
	bound   bool
}

// parseBind parses the bind address of a Sidecar's egress listener: a Unix domain socket
// ("unix://PATH") or an IP, which it returns in canonical form. ok is false for other texts, an IP
// with a zone, and a path longer than maxSocketPath.
func parseBind(text string) (address string, ok bool) {
	if config.IsSocket(text) {
		return text, len(text)-len(config.SocketPrefix) <= maxSocketPath
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return "", false
	}
	return a.Unmap().String(), true
}

// maxSocketPath is the length of sockaddr_un.sun_path on Linux without its final zero.
const maxSocketPath = 107

// parsePrefix parses an IP or a CIDR; the bool is false for other texts. IPv4-mapped IPv6 becomes
// IPv4, unless the prefix has fewer than 96 bits. The zone of an IP and the bits beyond the prefix
// are cleared.
func parsePrefix(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a, bits := prefix.Addr(), prefix.Bits()
	if a.Is4In6() && bits >= 96 {
		a, bits = a.Unmap(), bits-96
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}
