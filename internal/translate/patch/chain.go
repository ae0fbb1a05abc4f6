package patch

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// patchChain applies patches to one filter chain and its filters, and returns the result, or nil if
// a patch removes it. It may modify c and return it. Unless spare is set, a removal fails, because
// the listener would have no chain left. A patch that fails is recorded and skipped. Patches that
// add chains are ignored.
func (w *listenerWork) patchChain(c *listenerv3.FilterChain, spare bool) *listenerv3.FilterChain {
	for i, p := range w.patchesOf(networking.EnvoyFilter_FILTER_CHAIN) {
		if p.adds() {
			continue
		}
		w.recordDepth(i, matchedResource)
		if !p.matchesChain(w.listener.GetName(), c) {
			continue
		}
		if p.removes() {
			if !spare {
				w.fail(i, errNoChains)
				continue
			}
			w.recordEffects(i, 1)
			return nil
		}
		value, ok := p.value.(*listenerv3.FilterChain)
		if !ok {
			continue
		}
		next, err := mergeChain(c, value, p.replacesLists())
		if err != nil {
			w.fail(i, err)
			continue
		}
		c = next
		w.recordEffects(i, 1)
	}
	c.Filters = w.networkFilters(c)
	return c
}

// mergeChain returns a copy of the chain with value merged into it; lists are replaced if lists is
// set, else appended to. A transport socket of the same name is merged too, including its packed
// config; any other one replaces the chain's. It returns an error if the configs cannot be merged
// or the result is invalid.
func mergeChain(c, value *listenerv3.FilterChain, lists bool) (*listenerv3.FilterChain, error) {
	next := proto.CloneOf(c)
	if socket := value.GetTransportSocket(); socket != nil {
		value = proto.CloneOf(value)
		value.TransportSocket = nil
		s, err := mergeSocket(next.GetTransportSocket(), socket, lists)
		if err != nil {
			return nil, err
		}
		next.TransportSocket = s
	}
	merge(next, value, lists)
	if err := check(next); err != nil {
		return nil, err
	}
	return next, nil
}

// matchesChain reports whether the patch's match, which must include the listener, also includes
// the chain: by port, name, server name, transport and all of its application protocols. The port
// of the listener match is compared only in listeners of captured connections. Conditions that are
// not set, and a match without a listener part, include all chains.
func (p *patch) matchesChain(listener string, c *listenerv3.FilterChain) bool {
	if p.listener == nil {
		return true
	}
	have := c.GetFilterChainMatch()
	port := have.GetDestinationPort().GetValue()
	if want := p.listener.GetPortNumber(); want != 0 && want != port &&
		(listener == virtualInbound || listener == virtualOutbound) {
		return false // In listeners of captured connections, each chain has its own port.
	}
	m := p.listener.GetFilterChain()
	if m.GetApplicationProtocols() != "" {
		for want := range strings.SplitSeq(m.GetApplicationProtocols(), ",") {
			if !slices.Contains(have.GetApplicationProtocols(), strings.TrimSpace(want)) {
				return false
			}
		}
	}
	return (m.GetName() == "" || m.GetName() == c.GetName() || m.GetName() == istioChainName(c.GetName())) &&
		(m.GetSni() == "" || slices.Contains(have.GetServerNames(), m.GetSni())) &&
		(m.GetTransportProtocol() == "" || m.GetTransportProtocol() == have.GetTransportProtocol()) &&
		(m.GetDestinationPort() == 0 || m.GetDestinationPort() == port)
}

// istioChainName returns the name of an inbound chain in istiod, where all chains of a port have
// one name, and all raw connections to ports without a service too: "0.0.0.0_8080" for
// "0.0.0.0_8080_tcp_mtls_any", "virtualInbound" for "virtualInbound_9999_mtls". Other names are
// returned unchanged.
func istioChainName(name string) string {
	for _, suffix := range []string{"_any", "_mtls", "_tls", "_tcp"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if base, _, _ := strings.Cut(name, "_"); base == virtualInbound || base == virtualInbound+"-catchall-http" {
		return base
	}
	return name
}

// networkFilters returns the chain's filters with the NETWORK_FILTER patches applied, and in
// connection managers also the patches of HTTP filters and of inline routes. Matches, effects and
// failures of patches are recorded in w. A merge that fails for one filter leaves it unchanged, but
// still applies to the others. c is not modified.
func (w *listenerWork) networkFilters(c *listenerv3.FilterChain) []*listenerv3.Filter {
	f := filterList[*listenerv3.Filter]{
		work: w, applyTo: networking.EnvoyFilter_NETWORK_FILTER, classes: networkClasses(), terminal: isTerminal,
		matches: func(i int, p *patch) bool {
			w.recordDepth(i, matchedResource)
			if !p.matchesChain(w.listener.GetName(), c) {
				return false
			}
			w.recordDepth(i, matchedChain)
			return true
		},
	}
	filters, _ := f.apply(c.GetFilters())
	return w.patchConnectionManagers(c, filters)
}

// isTerminal reports whether a network filter must be the last of its chain. It knows the
// connection manager, the proxies for TCP, Redis, Thrift, Dubbo and generic protocols, direct
// response and echo, and returns false for all other types.
func isTerminal(typed *anypb.Any) bool {
	switch typed.MessageName() {
	case connectionManager,
		"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
		"envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
		"envoy.extensions.filters.network.thrift_proxy.v3.ThriftProxy",
		"envoy.extensions.filters.network.dubbo_proxy.v3.DubboProxy",
		"envoy.extensions.filters.network.generic_proxy.v3.GenericProxy",
		"envoy.extensions.filters.network.direct_response.v3.Config",
		"envoy.extensions.filters.network.echo.v3.Echo":
		return true
	default:
		return false
	}
}
