package listener

import (
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	mongov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/mongo_proxy/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/redis_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// httpALPNs returns the application protocols that the HTTP inspector sets on plaintext connections
// which the proxy handles as HTTP. HTTP/1.0 is among them only if it is enabled; otherwise it is
// forwarded as TCP, because the codec would refuse it.
func (b builder) httpALPNs() []string {
	if b.settings.AcceptsHTTP10() {
		return []string{"http/1.0", "http/1.1", "h2c"}
	}
	return []string{"http/1.1", "h2c"}
}

// buildChain encodes a chain, or returns nil if it has neither HTTP nor TCP. Plugins run before the
// terminal filter, except in a TCP chain that refuses connections. So do access filters of TCP
// chains, only inbound and at the edge, and not for connections that are passed through. For HTTP
// they are inside the connection manager. The terminal filter is HTTP's if set, else a Redis or TCP
// proxy; a discovered TCP proxy is only referenced by ECDS.
func (b builder) buildChain(c *Chain) *listenerv3.FilterChain {
	if c.HTTP == nil && c.TCP == nil {
		return nil
	}
	out := &listenerv3.FilterChain{
		Name:             c.Name,
		FilterChainMatch: b.chainMatch(&c.Match),
		TransportSocket:  b.transportSocket(c.TLS),
	}
	if b.edge && c.TLS != nil {
		out.TransportSocketConnectTimeout = handshakeTimeout(b.settings.Features.HandshakeTimeout)
	}
	if b.localDestination {
		out.Filters = append(out.Filters, localDestination())
	}
	if c.HTTP != nil {
		out.Filters = append(out.Filters, b.connectionPlugins(c, everyPhase()...)...)
		out.Filters = append(
			out.Filters,
			networkFilter("envoy.filters.network.http_connection_manager", b.connectionManager(c.HTTP, b.portOf(c))),
		)
		return out
	}
	if !c.TCP.isRefusal() {
		out.Filters = append(out.Filters, b.connectionFilters(c)...)
	}
	if c.TCP.Redis {
		out.Filters = append(out.Filters, networkFilter("envoy.filters.network.redis_proxy", redisProxy(c.TCP)))
		return out
	}
	prefix := c.TCP.StatPrefix
	if c.TCP.Discovered {
		prefix = c.Name
	}
	if c.TCP.Mongo {
		out.Filters = append(
			out.Filters,
			networkFilter("envoy.filters.network.mongo_proxy", &mongov3.MongoProxy{StatPrefix: prefix}),
		)
	}
	if c.TCP.Lookup.isWanted() {
		out.Filters = append(out.Filters, lookupServerName(c.TCP.Lookup))
	}
	if c.TCP.Discovered {
		out.Filters = append(out.Filters, discoveredProxy(c.Name))
	} else {
		out.Filters = append(out.Filters, networkFilter("envoy.filters.network.tcp_proxy", b.tcpProxy(c.TCP)))
	}
	return out
}

// connectionFilters returns the access filters and plugins of a chain with a TCP proxy, in the
// order in which connections pass them. Access filters are only inbound and at the edge, but not
// for connections that are passed through.
func (b builder) connectionFilters(c *Chain) []*listenerv3.Filter {
	by := new(accessFilters)
	if b.access != nil && (b.inbound || b.edge) && !c.TCP.PassedThrough {
		by = b.access
	}
	return slices.Concat(
		b.filtersAt(by.customConnections, c.Match.DestinationPort),
		b.connectionPlugins(c, plugin.BeforeAuthentication, plugin.BeforeAuthorization),
		b.filtersAt(by.connections, c.Match.DestinationPort),
		b.connectionPlugins(c, plugin.AfterAuthorization, plugin.Last),
	)
}

// filtersAt returns the network filters of access policies in a chain, of list. port is the
// destination port that the chain matches. 0 means any: then rules for ports with a chain of their
// own are left out.
func (b builder) filtersAt(list []*listenerv3.Filter, port uint32) []*listenerv3.Filter {
	return authorization.At(list, func(p uint32) bool {
		if port != 0 {
			return p == port
		}
		_, elsewhere := slices.BinarySearch(b.ports, p)
		return !elsewhere
	})
}

// discoveredProxy returns a TCP proxy whose config comes by ECDS under name. The listener stays
// warming until it arrives.
func discoveredProxy(name string) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name,
		ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: &corev3.ConfigSource{
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
				ResourceApiVersion:    corev3.ApiVersion_V3,
				// No timeout: the chain cannot work without it.
				InitialFetchTimeout: durationpb.New(0),
			},
			TypeUrls: []string{resource.Pack(new(tcpv3.TcpProxy)).TypeUrl},
		}}}
}

// networkFilter returns the network filter with a name and config. It panics if config cannot be
// encoded.
func networkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name:       name,
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(config)},
	}
}

// redisTimeout is the timeout of a Redis command.
const redisTimeout = 5 * time.Second

// redisProxy returns a filter that sends Redis commands to the first cluster of t, which must have
// one.
func redisProxy(t *TCP) *redisv3.RedisProxy {
	return &redisv3.RedisProxy{
		StatPrefix:      t.StatPrefix,
		Settings:        &redisv3.RedisProxy_ConnPoolSettings{OpTimeout: durationpb.New(redisTimeout)},
		LatencyInMicros: true,
		PrefixRoutes: &redisv3.RedisProxy_PrefixRoutes{
			CatchAllRoute: &redisv3.RedisProxy_PrefixRoutes_Route{Cluster: t.Clusters[0].Name},
		},
	}
}

// chainMatch encodes a Match, or returns nil if it matches everything. It panics if a prefix is
// invalid.
func (b builder) chainMatch(m *Match) *listenerv3.FilterChainMatch {
	out := &listenerv3.FilterChainMatch{TransportProtocol: m.Transport, ServerNames: m.SNI}
	if m.DestinationPort != 0 {
		out.DestinationPort = wrapperspb.UInt32(m.DestinationPort)
	}
	for _, text := range m.Prefixes {
		out.PrefixRanges = append(out.PrefixRanges, cidrRange(netip.MustParsePrefix(text))) // canonical, from parsePrefix
	}
	if m.HTTP {
		out.ApplicationProtocols = b.httpALPNs()
	}
	out.ApplicationProtocols = append(out.ApplicationProtocols, m.ALPN...)
	if proto.Size(out) == 0 {
		return nil
	}
	return out
}

// cidrRange encodes an address range, whose bits beyond the prefix must be 0.
func cidrRange(p netip.Prefix) *corev3.CidrRange {
	return &corev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}
}

// tcpProxy encodes a TCP proxy, with the TCP logs of the builder's side. A single cluster is named,
// several are weighted. An idle timeout of 0 is the proxy's own or else Envoy's default, a negative
// one disables it. Maximum duration, tunnel and source hash are taken from t. Outbound proxies
// fetch clusters on demand if b.onDemand is set.
func (b builder) tcpProxy(t *TCP) *tcpv3.TcpProxy {
	out := &tcpv3.TcpProxy{StatPrefix: t.StatPrefix, AccessLog: b.side().TCPLogs}
	if b.side().LogConnected {
		out.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	}
	if len(t.Clusters) == 1 {
		out.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: t.Clusters[0].Name}
	} else {
		weighted := new(tcpv3.TcpProxy_WeightedCluster)
		for _, c := range t.Clusters {
			weighted.Clusters = append(
				weighted.Clusters,
				&tcpv3.TcpProxy_WeightedCluster_ClusterWeight{Name: c.Name, Weight: c.Weight},
			)
		}
		out.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: weighted}
	}
	if out.IdleTimeout = b.idleTimeout; t.IdleTimeoutMS != 0 { // Envoy's zero is "never".
		out.IdleTimeout = durationpb.New(time.Duration(max(t.IdleTimeoutMS, 0)) * time.Millisecond)
	}
	if t.MaxDurationMS > 0 {
		out.MaxDownstreamConnectionDuration = durationpb.New(time.Duration(t.MaxDurationMS) * time.Millisecond)
	}
	if t.Tunnel != "" {
		out.TunnelingConfig = &tcpv3.TcpProxy_TunnelingConfig{Hostname: t.Tunnel, UsePost: t.TunnelByPost}
	}
	if b.onDemand && !b.inbound && len(t.clusterNames()) > 0 {
		out.OnDemand = onDemandConnections()
	}
	if t.SourceIPHash {
		out.HashPolicy = []*typev3.HashPolicy{
			{PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: new(typev3.HashPolicy_SourceIp)}},
		}
	}
	return out
}
