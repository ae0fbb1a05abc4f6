package listener

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// listenAddress is the address and port of a listener. Every one has its own listener, named after
// it. Envoy refuses two listeners with the same address. If several addresses shared a listener, an
// address that moves to another listener would exist twice during an update.
type listenAddress struct {
	address string
	port    uint32
}

// family is the wildcard and loopback addresses of proxies. The first one names listeners, and the
// other one, if any, is additional: so the same addresses always belong together.
type family struct {
	wildcard, loopback []string
	ipv4, ipv6         bool
}

// familyOf returns the family of proxies. Proxies without known addresses are assumed to have IPv4.
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

// includes reports whether proxies can reach an address.
func (f family) includes(a netip.Addr) bool {
	a = a.Unmap()
	return a.Is4() && f.ipv4 || a.Is6() && f.ipv6
}

// at returns the listener's address for address, and its additional addresses.
func (f family) at(address string, port uint32) (at listenAddress, more []string) {
	for _, group := range [][]string{f.wildcard, f.loopback} {
		if slices.Contains(group, address) {
			return listenAddress{group[0], port}, group[1:]
		}
	}
	return listenAddress{address, port}, nil
}

// parseBind parses the bind address of a Sidecar's listener; ok is false if no listener can be
// bound to it.
func parseBind(text string) (address string, ok bool) {
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

// isReserved reports whether a listener of every proxy on all addresses has the port.
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
		port == uint32(proxy.GetStatusPort()) || port == uint32(m.GetProxyHttpPort())
}
