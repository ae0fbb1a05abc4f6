package destination

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// DNSCache returns the config of the DNS cache that dynamic forward proxies resolve names with:
// names below a wildcard host of resolution DYNAMIC_DNS, and all unknown names under
// ALLOW_ANY_DYNAMIC_DNS. ipv4 and ipv6 are the address families of the proxy.
//
// All dynamic forward proxies share one cache, because a connection manager serves many hosts and
// its filter uses a single cache. Envoy refuses two configs that differ under one name, even during
// an update, so the name contains everything that varies.
func DNSCache(ipv4, ipv6 bool) *dfpv3.DnsCacheConfig {
	family := LookupFamily(ipv4, ipv6)
	return &dfpv3.DnsCacheConfig{Name: "dynamic_dns_" + strings.ToLower(family.String()), DnsLookupFamily: family}
}

// LookupFamily returns the DNS lookup family of a proxy, which yields only addresses of families
// that it has. It prefers IPv4 if the proxy has both, and returns IPv4 if it has neither.
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

// ByName reports whether a proxy can tell from traffic of protocol p which name below a wildcard
// host is meant: HTTP requests have an authority, and TLS connections a server name.
func ByName(p mesh.Protocol) bool { return p.IsHTTP() || p.IsTLS() }
