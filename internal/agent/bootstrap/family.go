package bootstrap

import (
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// family is which IP versions the proxy listens on and resolves names to.
type family struct {
	localhost string
	// wildcards are the addresses for "all interfaces": one, or two with the preferred one first.
	wildcards []string
	lookup    clusterv3.Cluster_DnsLookupFamily
}

// familyOf goes by the proxy's own addresses. With both versions the first address decides which is preferred.
func familyOf(addresses []netip.Addr) family {
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

// loopbacks are the addresses of this host alone, in the order of wildcards.
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

// Localhost is the loopback address on which Envoy and the agent talk to each other.
func Localhost(addresses []netip.Addr) netip.Addr {
	return netip.MustParseAddr(familyOf(addresses).localhost)
}
