package listener

import (
	"cmp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
)

// sharedParts are the parts that many listeners share, generated once for a listenerContext and
// never modified.
type sharedParts struct {
	listenerContext
	httpFilters map[filterSet][]*hcmv3.HttpFilter

	sidecarConnections, gatewayConnections *meshconfig.ProxyConfig_ConnectionSettings
	// idleTimeout is the idle timeout in the proxies' metadata, for HTTP and TCP; nil means Envoy's
	// defaults.
	idleTimeout *durationpb.Duration
}

// newSharedParts returns the shared parts for a context: the connection settings of sidecars and
// gateways, the proxies' idle timeout if configured, and the HTTP filters of all kinds of
// connection managers.
func newSharedParts(a listenerContext) *sharedParts {
	s := a.settings
	c := &sharedParts{
		listenerContext: a, httpFilters: map[filterSet][]*hcmv3.HttpFilter{},
		sidecarConnections: connectionSettings(s.Mesh, false), gatewayConnections: connectionSettings(s.Mesh, true),
	}
	if d, ok := s.IdleTimeout(); ok {
		c.idleTimeout = durationpb.New(d)
	}
	for _, of := range []filterSet{
		{calledFrom: true}, {callsOn: true}, {calledFrom: true, callsOn: true},
		{calledFrom: true, callsOn: true, perRoute: true},
	} {
		for _, of.grpcWeb = range []bool{false, true} {
			c.httpFilters[of] = a.httpFilters(of)
		}
	}
	return c
}

// filtersOf returns the HTTP filters of a connection manager. Without plugins, all connection
// managers that differ only in the port share one list, which must not be modified; with plugins,
// each call makes a new list.
func (c *sharedParts) filtersOf(of filterSet) []*hcmv3.HttpFilter {
	if c.plugins != (plugin.Places{}) {
		return c.listenerContext.httpFilters(of)
	}
	of.port = 0
	return c.httpFilters[of]
}

// builder encodes the parts of one listener.
type builder struct {
	*sharedParts
	inbound, edge, quic bool
	// localDestination is Spec.LocalDestination.
	localDestination bool
	// ports are the destination ports that chains of the listener match, sorted. Connections to
	// them use no other chain.
	ports []uint32
	// port is the port of all chains that match no destination port; 0 if they apply to any port.
	port uint32
}

// side returns the server's telemetry for inbound listeners, the client's for all others.
func (b builder) side() *telemetry.Side {
	if b.inbound {
		return &b.telemetry.Server
	}
	return &b.telemetry.Client
}

// newBuilder returns the builder of the parts of a listener. Chains of the listeners that receive
// captured connections apply to any port unless they match one.
func newBuilder(s *Spec, c *sharedParts) builder {
	b := builder{
		sharedParts:      c,
		inbound:          s.Inbound,
		edge:             s.Gateway,
		quic:             s.QUIC,
		localDestination: s.LocalDestination,
		ports:            s.ports(),
		port:             s.Port,
	}
	if s.Name == virtualInbound || s.Name == virtualOutbound {
		b.port = 0
	}
	return b
}

// buildListener encodes a Spec as an Envoy listener. Only gateways log connections that no chain
// handles, unless disableEnvoyListenerLog is set. A Spec for UDP is encoded by buildUDP.
func buildListener(s *Spec, c *sharedParts) *listenerv3.Listener {
	if s.UDP != nil {
		return buildUDP(s, c)
	}
	b := newBuilder(s, c)
	l := &listenerv3.Listener{
		Name:               s.Name,
		TrafficDirection:   corev3.TrafficDirection_OUTBOUND,
		DefaultFilterChain: b.buildChain(&s.Default),
	}
	if s.Inbound {
		l.TrafficDirection = corev3.TrafficDirection_INBOUND
	}
	b.addSockets(l, s)
	b.addInspectors(l, s)
	b.applyConnectionLimit(l)
	// Listeners of sidecars have a default filter chain.
	if s.Gateway && !c.settings.Mesh.GetDisableEnvoyListenerLog() {
		l.AccessLog = b.side().ListenerLogs
	}
	for i := range s.Chains {
		l.FilterChains = append(l.FilterChains, b.buildChain(&s.Chains[i]))
	}
	return l
}

// addSockets adds the addresses of s to a listener, and how it accepts connections there. A QUIC
// listener, and one without Bind, has no limit of accepts per event. If the settings balance
// connections of this direction exactly, exactBalance decides; a listener that forwards connections
// to others leaves that to them.
func (b builder) addSockets(l *listenerv3.Listener, s *Spec) {
	l.Address = socketAddress(s.Address, s.Port)
	for _, more := range s.More {
		l.AdditionalAddresses = append(
			l.AdditionalAddresses,
			&listenerv3.AdditionalAddress{Address: socketAddress(more, s.Port)},
		)
	}
	if s.QUIC {
		makeQUIC(l)
	}
	switch {
	case !s.Bind:
		l.BindToPort = wrapperspb.Bool(false)
	case !s.QUIC: // A UDP socket accepts no connections.
		l.MaxConnectionsToAcceptPerSocketEvent = acceptsPerEvent(b.settings.Features.AcceptsPerEvent)
	}
	if inbound, outbound := b.settings.ExactBalance(); s.Inbound && inbound || !s.Inbound && outbound {
		l.ConnectionBalanceConfig = exactBalance(s)
	}
	if s.UseOriginalDst {
		l.UseOriginalDst = wrapperspb.Bool(true)
	}
	if s.Transparent {
		l.Transparent = wrapperspb.Bool(true)
	}
}

// addInspectors adds the listener filters of s to a listener. Except on gateways, which do not wait
// for clients that send nothing, it continues after the protocol detection timeout. Outbound
// listeners without an HTTP inspector have none: their clients must send a server name.
func (b builder) addInspectors(l *listenerv3.Listener, s *Spec) {
	l.ListenerFilters = listenerFilters(s)
	if len(l.ListenerFilters) == 0 || s.Gateway {
		return
	}
	// Zero waits for the client's first bytes without limit. After a positive time the connection
	// continues undetected.
	l.ListenerFiltersTimeout = new(durationpb.Duration)
	if s.Inbound || s.HTTPInspector {
		l.ListenerFiltersTimeout = durationpb.New(b.settings.Mesh.GetProtocolDetectionTimeout().AsDuration())
	}
	l.ContinueOnListenerFiltersTimeout = true
}

// exactBalance returns the configuration with which Envoy assigns each connection to the worker
// with the fewest. It returns nil for QUIC listeners and for the listener that forwards captured
// connections to other listeners.
func exactBalance(s *Spec) *listenerv3.Listener_ConnectionBalanceConfig {
	if s.QUIC || s.UseOriginalDst {
		return nil
	}
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: new(listenerv3.Listener_ConnectionBalanceConfig_ExactBalance),
		},
	}
}

// acceptsPerEvent returns configured (Features.AcceptsPerEvent), or snapshot.DefaultAcceptsPerEvent
// for 0. It returns nil, no limit, for a negative value.
func acceptsPerEvent(configured int) *wrapperspb.UInt32Value {
	if configured < 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(cmp.Or(configured, snapshot.DefaultAcceptsPerEvent)))
}

// socketAddress returns the Envoy address of an IP and port, or of a Unix domain socket
// ("unix://PATH"), which ignores the port.
func socketAddress(at string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(at, config.SocketPrefix); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: at, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
