package listener

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpdfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Lookup makes the proxy resolve the names in requests or TLS connections before it forwards them
// to a dynamic forward proxy cluster (resolution DYNAMIC_DNS; outbound policy
// ALLOW_ANY_DYNAMIC_DNS). Other clusters are not affected. The zero value resolves nothing.
type Lookup struct {
	// Family is the address families to resolve, of which AUTO resolves nothing.
	Family clusterv3.Cluster_DnsLookupFamily
	// Port is the port to connect to if the connection does not contain it: for TLS.
	Port uint32
}

// isWanted reports whether anything is to be resolved. It returns false for the zero Lookup.
func (l Lookup) isWanted() bool { return l != Lookup{} }

// withLookup returns list with the filter that resolves a request's host inserted before the last
// filter, the router; list itself if l resolves nothing. No filter needs the address earlier, and
// all that may refuse the request run first.
func withLookup(list []*hcmv3.HttpFilter, l Lookup) []*hcmv3.HttpFilter {
	if !l.isWanted() {
		return list
	}
	last := len(list) - 1
	return append(append([]*hcmv3.HttpFilter(nil), list[:last]...), &hcmv3.HttpFilter{
		Name: "envoy.filters.http.dynamic_forward_proxy",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(&httpdfpv3.FilterConfig{
			ImplementationSpecifier: &httpdfpv3.FilterConfig_DnsCacheConfig{
				DnsCacheConfig: destination.DNSCache(l.Family),
			},
		})},
	}, list[last])
}

// lookupServerName returns the network filter that resolves the server name of a TLS connection, to
// connect to l.Port.
func lookupServerName(l Lookup) *listenerv3.Filter {
	return networkFilter("envoy.filters.network.sni_dynamic_forward_proxy", &snidfpv3.FilterConfig{
		DnsCacheConfig: destination.DNSCache(l.Family),
		PortSpecifier:  &snidfpv3.FilterConfig_PortValue{PortValue: l.Port},
	})
}

// appendText appends the complete text of l to b and returns it; nothing for the zero value.
// Different Lookups have different texts.
func (l Lookup) appendText(b []byte) []byte {
	if !l.isWanted() {
		return b
	}
	b = append(append(b, ", names looked up: "...), l.Family.String()...)
	if l.Port == 0 {
		return b
	}
	return appendNumber(append(b, " for port "...), l.Port)
}
