package destination

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DNSCache gives the cache in which dynamic forward proxies keep the addresses of names: of those that a wildcard host stands
// for (resolution DYNAMIC_DNS), and of all that nobody knows (ALLOW_ANY_DYNAMIC_DNS). There is one for all of them, since a
// connection manager serves many hosts, and its filter looks each name up in one cache. Clusters and filters say it alike:
// of one name Envoy takes no two that differ, also in the midst of an update, so what may differ is in the name. ipv4 and
// ipv6 say which families proxies have addresses of.
func DNSCache(ipv4, ipv6 bool) *dfpv3.DnsCacheConfig {
	family := LookupFamily(ipv4, ipv6)
	return &dfpv3.DnsCacheConfig{Name: "dynamic_dns_" + strings.ToLower(family.String()), DnsLookupFamily: family}
}

// LookupFamily keeps proxies of one family from being given addresses that they cannot reach.
func LookupFamily(ipv4, ipv6 bool) clusterv3.Cluster_DnsLookupFamily {
	switch {
	case ipv4 && ipv6:
		return clusterv3.Cluster_V4_PREFERRED
	case ipv6:
		return clusterv3.Cluster_V6_ONLY
	default:
		return clusterv3.Cluster_V4_ONLY
	}
}

// ByName says whether proxies can tell from what they are sent which of the names of a wildcard host is meant: requests have
// a host, and TLS a server name.
func ByName(p mesh.Protocol) bool { return p.IsHTTP() || p.IsTLS() }
