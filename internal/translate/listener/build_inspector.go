package listener

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// listenerFilters returns the listener filters in execution order: the PROXY protocol is read and
// the original destination restored before any filter inspects bytes. Both inspectors are disabled
// on the ports s.NoInspection, the HTTP inspector also on s.NoHTTPInspection. With both OriginalDst
// and Transparent the original source is restored, too.
func listenerFilters(s *Spec) []*listenerv3.ListenerFilter {
	var list []*listenerv3.ListenerFilter
	add := func(name string, config proto.Message) *listenerv3.ListenerFilter {
		f := &listenerv3.ListenerFilter{
			Name:       name,
			ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: resource.Pack(config)},
		}
		list = append(list, f)
		return f
	}
	if s.ProxyProtocol {
		add("envoy.filters.listener.proxy_protocol", new(proxyprotocolv3.ProxyProtocol))
	}
	if s.OriginalDst {
		add("envoy.filters.listener.original_dst", new(originaldstv3.OriginalDst))
	}
	if s.OriginalDst && s.Transparent {
		add("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: originalSourceMark})
	}
	if s.TLSInspector {
		add(
			"envoy.filters.listener.tls_inspector",
			new(tlsinspectorv3.TlsInspector),
		).FilterDisabled = onPorts(s.NoInspection)
	}
	if s.HTTPInspector {
		add(
			"envoy.filters.listener.http_inspector",
			new(httpinspectorv3.HttpInspector),
		).FilterDisabled = onPorts(slices.Sorted(slices.Values(slices.Concat(s.NoInspection, s.NoHTTPInspection))))
	}
	return list
}

// originalSourceMark marks the connections that Envoy makes to the workload with a client's source
// address. The rules and routes of TPROXY (istio-iptables -t, whose default it is) exclude them
// from capture, and route the workload's replies to Envoy.
const originalSourceMark = 1337

// onPorts returns a predicate that matches connections to one of the destination ports, or nil
// without ports.
func onPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	var rules []*listenerv3.ListenerFilterChainMatchPredicate
	for _, p := range ports {
		rules = append(rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		})
	}
	switch len(rules) {
	case 0:
		return nil
	case 1: // Envoy refuses an "or" of one.
		return rules[0]
	default:
		return &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
				OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
			},
		}
	}
}
