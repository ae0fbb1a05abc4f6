package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpdfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Lookup has the proxy look up the names that requests or TLS connections are for, before they go to the cluster of a
// dynamic forward proxy (resolution DYNAMIC_DNS; outbound policy ALLOW_ANY_DYNAMIC_DNS). What goes to other clusters passes
// it by. The zero value looks up nothing.
type Lookup struct {
	// IPv4 and IPv6 are the families of addresses that can be used.
	IPv4, IPv6 bool
	// Port is the one to connect to, where the connection does not say it: for TLS.
	Port uint32
}

func (l Lookup) wanted() bool { return l != Lookup{} }

// anyName looks up the hosts of requests.
func (p *planner) anyName() Lookup { return Lookup{IPv4: p.family.ipv4, IPv6: p.family.ipv6} }

// lookupOfRequests gives what a listener that reads requests must look up for a service, and for hosts that nobody knows.
func (p *planner) lookupOfRequests(svc *mesh.Service) Lookup {
	if svc.Resolution == mesh.DynamicDNS || p.in.byName {
		return p.anyName()
	}
	return Lookup{}
}

// lookup gives what a chain that forwards connections must look up for a service of that port, if it is one whose names are.
func (p *planner) lookup(svc *mesh.Service, port mesh.Port) Lookup {
	if svc.Resolution != mesh.DynamicDNS {
		return Lookup{}
	}
	l := p.anyName()
	if port.Protocol.IsTLS() {
		l.Port = port.Target
	}
	return l
}

// lookupRequests puts the filter that looks up a request's host before the last one, which sends the request on: nothing
// before it needs the address, and what it waits for comes after all that may refuse.
func lookupRequests(list []*hcmv3.HttpFilter, l Lookup) []*hcmv3.HttpFilter {
	if !l.wanted() {
		return list
	}
	last := len(list) - 1
	return append(append([]*hcmv3.HttpFilter(nil), list[:last]...), &hcmv3.HttpFilter{
		Name: "envoy.filters.http.dynamic_forward_proxy",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(&httpdfpv3.FilterConfig{
			ImplementationSpecifier: &httpdfpv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: destination.DNSCache(l.IPv4, l.IPv6)},
		})},
	}, list[last])
}

// lookupServerName is the filter that looks up the server name of a TLS connection.
func lookupServerName(l Lookup) *listenerv3.Filter {
	return filter("envoy.filters.network.sni_dynamic_forward_proxy", &snidfpv3.FilterConfig{
		DnsCacheConfig: destination.DNSCache(l.IPv4, l.IPv6),
		PortSpecifier:  &snidfpv3.FilterConfig_PortValue{PortValue: l.Port},
	})
}

func (l Lookup) appendText(b []byte) []byte {
	if !l.wanted() {
		return b
	}
	b = appendFlag(append(b, ", names looked up"...), " over IPv4", l.IPv4)
	b = appendFlag(b, " over IPv6", l.IPv6)
	if l.Port == 0 {
		return b
	}
	return appendNumber(append(b, " for port "...), l.Port)
}
