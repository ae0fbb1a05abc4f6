package listener

import (
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	fractionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/runtime_fraction/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// planUDP plans the listener of a UDP server, which distributes sessions over the clusters of a TCP
// route: the first route of the first VirtualService with TCP routes that is bound to the server.
// Sessions for a share without a cluster are dropped. It returns nil if there is no such
// VirtualService: the port stays closed. It adds no Problems.
func (p *gatewayPlanner) planUDP(s *view.GatewayServer) []Spec {
	vs, shares := destination.UDPShares(p.v, s)
	if vs == nil {
		return nil
	}
	out := *p.spec
	out.Name, out.ProxyProtocol = "udp_"+out.Name, false
	out.UDP = &UDP{StatPrefix: vs.Config.Name + "." + vs.Config.Namespace}
	for _, share := range shares {
		c := WeightedCluster{Weight: share.Weight}
		if share.Cluster.Host != "" {
			c.Name = share.Cluster.String()
		}
		out.UDP.Clusters = append(out.UDP.Clusters, c)
	}
	// The matcher drops what no cluster takes, so the shares to drop come last.
	slices.SortStableFunc(out.UDP.Clusters, func(a, b WeightedCluster) int {
		switch {
		case a.Name != "" && b.Name == "":
			return -1
		case a.Name == "" && b.Name != "":
			return 1
		default:
			return 0
		}
	})
	out.From = sortedKeys(append(slices.Clone(vs.From), s.Object.Key))
	return []Spec{out}
}

// buildUDP encodes a listener that forwards datagrams, s.UDP. It is outbound, with the access logs
// of TCP.
func buildUDP(s *Spec, c *sharedParts) *listenerv3.Listener {
	b := builder{sharedParts: c, edge: s.Gateway}
	proxy := &udpv3.UdpProxyConfig{
		StatPrefix:     s.UDP.StatPrefix,
		AccessLog:      b.side().TCPLogs,
		RouteSpecifier: &udpv3.UdpProxyConfig_Matcher{Matcher: s.UDP.matcher()},
	}
	l := &listenerv3.Listener{
		Name:             s.Name,
		Address:          socketAddress(s.Address, s.Port),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		ListenerFilters: []*listenerv3.ListenerFilter{{
			Name:       "envoy.filters.udp_listener.udp_proxy",
			ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: resource.Pack(proxy)},
		}},
		UdpListenerConfig: new(listenerv3.UdpListenerConfig),
	}
	for _, more := range s.More {
		l.AdditionalAddresses = append(l.AdditionalAddresses,
			&listenerv3.AdditionalAddress{Address: socketAddress(more, s.Port)})
	}
	setUDP(l)
	return l
}

// matcher returns the routing of sessions to the clusters. The clusters are tried in order, each
// with its share of the sessions that the previous ones have not taken. A session is identified by
// the client's port, so that all its datagrams have the same destination. Sessions for a cluster
// without a name match nothing, and are dropped.
func (u *UDP) matcher() *matcherv3.Matcher {
	var rest uint64
	for _, c := range u.Clusters {
		rest += uint64(c.Weight)
	}
	list := new(matcherv3.Matcher_MatcherList)
	out := new(matcherv3.Matcher)
	for i, c := range u.Clusters {
		switch {
		case c.Name == "":
			continue
		case uint64(c.Weight) == rest:
			out.OnNoMatch = forwardDatagrams(c.Name)
		default:
			list.Matchers = append(list.Matchers, &matcherv3.Matcher_MatcherList_FieldMatcher{
				Predicate: sessionShare(uint64(c.Weight), rest, uint64(i)), OnMatch: forwardDatagrams(c.Name),
			})
		}
		rest -= uint64(c.Weight)
	}
	if len(list.Matchers) > 0 {
		out.MatcherType = &matcherv3.Matcher_MatcherList_{MatcherList: list}
	}
	return out
}

// forwardDatagrams returns the action that forwards datagrams to a cluster.
func forwardDatagrams(cluster string) *matcherv3.Matcher_OnMatch {
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{Action: matcherExtension(
		"route", &udpv3.Route{Cluster: cluster},
	)}}
}

// sessionShare returns a predicate that matches weight of total sessions, by the hash of the
// client's port and seed.
func sessionShare(weight, total, seed uint64) *matcherv3.Matcher_MatcherList_Predicate {
	const million = 1_000_000
	share := &fractionv3.RuntimeFraction{Seed: seed, RuntimeFraction: &corev3.RuntimeFractionalPercent{
		DefaultValue: &typev3.FractionalPercent{
			Numerator:   uint32(weight * million / total), //nolint:gosec // at most a million
			Denominator: typev3.FractionalPercent_MILLION,
		},
	}}
	return &matcherv3.Matcher_MatcherList_Predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: matcherExtension("envoy.matching.inputs.source_port", new(networkv3.SourcePortInput)),
			Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{
				CustomMatch: matcherExtension("envoy.matching.matchers.runtime_fraction", share),
			},
		},
	}}
}

// matcherExtension returns the extension of a matcher with a name and config.
func matcherExtension(name string, config proto.Message) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(config)}
}
