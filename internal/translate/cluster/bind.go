package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Source addresses of connections from a proxy to its own workload. istio-iptables excludes them
// from capture; other connections to the workload's addresses return to the proxy.
const (
	inboundSource4 = "127.0.0.6"
	inboundSource6 = "::6"
)

// applyInboundSource binds the cluster's connections to inboundSource4, or to inboundSource6 if the
// proxy has only IPv6; capture excludes both. A proxy with both families gets both, and Envoy uses
// the address of the family that it connects to. It replaces the cluster's bind config.
func applyInboundSource(c *clusterv3.Cluster, p Proxy) {
	c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: anyPort(inboundSource4)}
	switch {
	case p.IPv6 && !p.IPv4:
		c.UpstreamBindConfig.SourceAddress = anyPort(inboundSource6)
	case p.IPv6:
		c.UpstreamBindConfig.ExtraSourceAddresses = []*corev3.ExtraSourceAddress{{Address: anyPort(inboundSource6)}}
	}
}

// anyPort returns a source address whose port the system chooses.
func anyPort(address string) *corev3.SocketAddress {
	return &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0}}
}

// SOL_SOCKET and SO_MARK of Linux, see socket(7).
const (
	levelSocket = 1
	optionMark  = 36
)

// applySocketMark sets SO_MARK on the cluster's connections, for a capture that recognizes the
// proxy's own connections by mark instead of by user. It replaces the socket options of the
// cluster's bind config. It does nothing if mark is 0.
func applySocketMark(c *clusterv3.Cluster, mark int) {
	if mark == 0 {
		return
	}
	if c.UpstreamBindConfig == nil {
		c.UpstreamBindConfig = new(corev3.BindConfig)
	}
	c.UpstreamBindConfig.SocketOptions = []*corev3.SocketOption{{
		Description: "SO_MARK",
		Level:       levelSocket,
		Name:        optionMark,
		Value:       &corev3.SocketOption_IntValue{IntValue: int64(mark)},
		State:       corev3.SocketOption_STATE_PREBIND,
	}}
}
