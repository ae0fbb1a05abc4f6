package destination

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// DNSCache returns the config of the DNS cache that dynamic forward proxies resolve names with:
// names below a wildcard host of resolution DYNAMIC_DNS, and all unknown names under
// ALLOW_ANY_DYNAMIC_DNS. family is the result of LookupFamily for the proxy.
//
// All dynamic forward proxies share one cache, because a connection manager serves many hosts and
// its filter uses a single cache. Envoy refuses two configs that differ under one name, even during
// an update, so the name contains everything that varies.
func DNSCache(family clusterv3.Cluster_DnsLookupFamily) *dfpv3.DnsCacheConfig {
	return &dfpv3.DnsCacheConfig{Name: "dynamic_dns_" + strings.ToLower(family.String()), DnsLookupFamily: family}
}

// LookupFamily returns the DNS lookup family of the View's proxies. It is ALL, with which Envoy
// tries IPv6 first and soon after it IPv4 (RFC 8305), if the proxies have both families and
// Features.DualStack is set, or if they have only IPv6 and Features.IPv4Outbound is set. Otherwise
// Envoy looks up only families that the proxies have, and prefers IPv4. Without known addresses
// they are assumed to have IPv4.
func LookupFamily(v *view.View) clusterv3.Cluster_DnsLookupFamily {
	features := &v.Settings.Features
	switch k := &v.Key; {
	case k.IPv4 && k.IPv6 && features.DualStack, k.IPv6 && !k.IPv4 && features.IPv4Outbound:
		return clusterv3.Cluster_ALL
	case k.IPv4 && k.IPv6:
		return clusterv3.Cluster_V4_PREFERRED
	case k.IPv6:
		return clusterv3.Cluster_V6_ONLY
	default:
		return clusterv3.Cluster_V4_ONLY
	}
}

// ByName reports whether a proxy can tell from traffic of protocol p which name below a wildcard
// host is meant: HTTP requests have an authority, and TLS connections a server name.
func ByName(p mesh.Protocol) bool { return p.IsHTTP() || p.IsTLS() }
