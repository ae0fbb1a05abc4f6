package bootstrap

import (
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// family holds the IP versions on which the proxy listens and to which it resolves names.
type family struct {
	localhost string
	// wildcards are the addresses that bind all interfaces: one per IP version, the preferred one
	// first.
	wildcards []string
	lookup    clusterv3.Cluster_DnsLookupFamily
}

// newFamily returns the loopback and wildcard addresses and the kind of DNS lookup for the IP
// versions of the proxy's own addresses. If there are both, IPv6 is preferred if the first address
// is IPv6, otherwise IPv4. Without addresses it is IPv4. Invalid addresses are ignored.
func newFamily(addresses []netip.Addr) family {
	var v4, v6 bool
	for _, a := range addresses {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
	}
	switch {
	case v4 && v6 && addresses[0].Is6():
		return family{"::1", []string{"::", "0.0.0.0"}, clusterv3.Cluster_ALL}
	case v4 && v6:
		return family{"127.0.0.1", []string{"0.0.0.0", "::"}, clusterv3.Cluster_ALL}
	case v6:
		return family{"::1", []string{"::"}, clusterv3.Cluster_V6_ONLY}
	default:
		return family{"127.0.0.1", []string{"0.0.0.0"}, clusterv3.Cluster_V4_ONLY}
	}
}

// loopbacks returns the loopback address, 127.0.0.1 or ::1, of each IP version in f.wildcards, in
// the same order.
func (f family) loopbacks() []string {
	var list []string
	for _, w := range f.wildcards {
		if w == "::" {
			list = append(list, "::1")
		} else {
			list = append(list, "127.0.0.1")
		}
	}
	return list
}

// Localhost returns the loopback address on which Envoy and the agent communicate. It is ::1 if all
// addresses are IPv6, or the first one is, and otherwise 127.0.0.1.
func Localhost(addresses []netip.Addr) netip.Addr {
	return netip.MustParseAddr(newFamily(addresses).localhost)
}
