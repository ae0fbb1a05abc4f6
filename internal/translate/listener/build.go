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

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
)

// common is what many listeners have in them, made once for the settings of the mesh and never changed.
type common struct {
	around
	httpFilters map[filterSet][]*hcmv3.HttpFilter

	sidecarConnections, gatewayConnections *meshconfig.ProxyConfig_ConnectionSettings
}

func newCommon(a around) *common {
	s := a.settings
	c := &common{
		around: a, httpFilters: map[filterSet][]*hcmv3.HttpFilter{},
		sidecarConnections: connectionSettings(s.Mesh, false), gatewayConnections: connectionSettings(s.Mesh, true),
	}
	for _, of := range []filterSet{{calledFrom: true}, {callsOn: true}, {calledFrom: true, callsOn: true}} {
		for _, of.grpcWeb = range []bool{false, true} {
			c.httpFilters[of] = a.httpFilters(of)
		}
	}
	return c
}

// filtersOf gives the filters of a connection manager. They are one list for all, unless there are plugins.
func (c *common) filtersOf(of filterSet) []*hcmv3.HttpFilter {
	if c.plugins != (plugin.Places{}) {
		return c.around.httpFilters(of)
	}
	of.port = 0
	return c.httpFilters[of]
}

// builder writes the parts of one listener.
type builder struct {
	*common
	inbound, edge, quic bool
	// localDestination is Spec.LocalDestination.
	localDestination bool
	// ports are those that chains of the listener are for, sorted: connections to them come by no other chain.
	ports []uint32
	// port is that of all chains but those for ports of their own; 0: they are for any.
	port uint32
}

// side is what is told of the listener's traffic.
func (b builder) side() *telemetry.Side {
	if b.inbound {
		return &b.telemetry.Server
	}
	return &b.telemetry.Client
}

// build writes a Spec as Envoy's listener.
func build(s *Spec, c *common) *listenerv3.Listener {
	b := builder{common: c, inbound: s.Inbound, edge: s.Gateway, quic: s.QUIC, localDestination: s.LocalDestination, ports: s.ports(), port: s.Port}
	if s.Name == virtualInbound || s.Name == virtualOutbound {
		b.port = 0
	}
	l := &listenerv3.Listener{
		Name:               s.Name,
		Address:            address(s.Address, s.Port),
		TrafficDirection:   corev3.TrafficDirection_OUTBOUND,
		ListenerFilters:    listenerFilters(s),
		DefaultFilterChain: b.chain(&s.Default),
	}
	if len(l.ListenerFilters) > 0 && !s.Gateway { // at the edge, clients that say nothing are not waited for
		// Zero waits for the client's first bytes for as long as it takes; a positive time goes on without an answer.
		l.ListenerFiltersTimeout = durationpb.New(c.settings.Mesh.GetProtocolDetectionTimeout().AsDuration())
		l.ContinueOnListenerFiltersTimeout = true
	}
	for _, more := range s.More {
		l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: address(more, s.Port)})
	}
	if s.QUIC {
		overUDP(l)
	}
	switch {
	case !s.Bind:
		l.BindToPort = wrapperspb.Bool(false)
	case !s.QUIC: // a socket of UDP accepts nothing
		l.MaxConnectionsToAcceptPerSocketEvent = acceptsPerEvent(c.settings.Features.AcceptsPerEvent)
	}
	if s.Inbound {
		l.TrafficDirection = corev3.TrafficDirection_INBOUND
	}
	b.applyConnectionLimit(l)
	if s.Gateway && !c.settings.Mesh.GetDisableEnvoyListenerLog() { // listeners of sidecars have a default filter chain
		l.AccessLog = b.side().ListenerLogs
	}
	if s.UseOriginalDst {
		l.UseOriginalDst = wrapperspb.Bool(true)
	}
	if s.Transparent {
		l.Transparent = wrapperspb.Bool(true)
	}
	for i := range s.Chains {
		l.FilterChains = append(l.FilterChains, b.chain(&s.Chains[i]))
	}
	return l
}

// acceptsPerEvent returns Features.AcceptsPerEvent with its default, as Envoy has it: nil is no limit.
func acceptsPerEvent(configured int) *wrapperspb.UInt32Value {
	if configured < 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(cmp.Or(configured, snapshot.DefaultAcceptsPerEvent)))
}

// address writes an IP and port, or a socket.
func address(at string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(at, socketScheme); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: at, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
