package cluster

import (
	"net/netip"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// InboundInput is everything that the cluster of one port of the workload depends on.
type InboundInput struct {
	// Number is the port on the workload, or the port of the Sidecar's ingress listener.
	Number uint32
	// Port is the service's port, or the port of the ingress listener.
	Port mesh.Port
	// Endpoint is the destination in the form of IstioIngressListener.defaultEndpoint, or "" for
	// the original destination.
	Endpoint string
	// Service is the oldest service at the port, nil if there is none.
	Service *mesh.Service
	// Label is the name of the service in metrics, the zero value if they have none.
	Label name
	// Rule is the DestinationRule in the service's own namespace, nil if there is none. Only its
	// connection pool applies to inbound clusters.
	Rule *snapshot.DestinationRule
	// Sidecar is nil if none applies.
	Sidecar  *config.Config
	Settings *snapshot.Settings
	Proxy    Proxy
}

// Name returns the name of the cluster.
func (in InboundInput) Name() mesh.ClusterName {
	return mesh.ClusterName{Direction: mesh.Inbound, Port: in.Number}
}

// neverCleaned prevents Envoy from removing the only address that an inbound cluster ever has. It
// is the highest value that Envoy accepts.
const neverCleaned = 9223372035 // seconds

// Inbound returns the inbound cluster of port in.Number, through which a proxy connects to its own
// workload; it is never nil. Connections go to their original destination or to in.Endpoint
// (applyTarget). The limits of connections come from in.connectionPool, so that the workload
// accepts as many as callers may open. in.Service, in.Rule and in.Sidecar may be nil.
func Inbound(in InboundInput) *clusterv3.Cluster {
	mesh := in.Settings.Mesh
	c := &clusterv3.Cluster{
		Name:        in.Name().String(),
		AltStatName: destination.StatName(mesh.GetInboundClusterStatName(), in.Service, in.Port, "", in.Number),
		Metadata:    in.metadata(),
	}
	in.applyTarget(c)
	pool := in.connectionPool()
	applyConnectionPool(c, in.Settings, pool, nil)
	http := inboundProtocol(in.Port, mesh, pool.GetHttp())
	http.applyConnectionPool(pool)
	http.applyTo(c)
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}

// connectionPool returns the limits of inbound connections, from the first of these that is set:
// the Sidecar's ingress listener at the port, the Sidecar's inboundConnectionPool, the policy for
// in.Port of in.Rule or the mesh. It returns nil if none is set.
func (in InboundInput) connectionPool() *networking.ConnectionPoolSettings {
	if in.Sidecar != nil {
		spec := config.Spec[*networking.Sidecar](in.Sidecar)
		for _, l := range spec.GetIngress() {
			if l.GetPort().GetNumber() == in.Number && l.GetConnectionPool() != nil {
				return l.GetConnectionPool()
			}
		}
		if spec.GetInboundConnectionPool() != nil {
			return spec.GetInboundConnectionPool()
		}
	}
	var rule *networking.DestinationRule
	if in.Rule != nil {
		rule = in.Rule.Spec
	}
	return policy.Of(in.Settings.Mesh, rule, "", in.Port.Number).GetConnectionPool()
}

// inboundProtocol returns the HTTP options towards the workload, never nil: the client's version if
// useClientProtocol is set or the port's protocol is detected, otherwise HTTP/2 for HTTP/2 ports,
// and HTTP/1.1 for all others. Besides, only preserve_case may be set (newHTTPProtocol).
func inboundProtocol(
	port mesh.Port,
	config *meshconfig.MeshConfig,
	pool *networking.ConnectionPoolSettings_HTTPSettings,
) *httpProtocol {
	h := newHTTPProtocol(port, config)
	switch {
	case pool.GetUseClientProtocol():
		h.followClient()
	case port.Protocol.IsHTTP2():
		h.speakHTTP2()
	case port.Protocol == mesh.Auto:
		h.followClient()
	}
	return h
}

// metadata returns in.Label, and the DestinationRule if it has a policy for the whole host, as
// metadata; nil without both.
func (in InboundInput) metadata() *corev3.Metadata {
	f := fields{}
	if in.Label != (name{}) {
		f.setService(in.Label)
	}
	if in.Rule != nil && in.Rule.Spec.GetTrafficPolicy() != nil {
		f.setRule(in.Rule)
	}
	return f.toMetadata()
}

// applyTarget sets the destination of connections by in.Endpoint: a Unix socket ("unix://PATH"), or
// the original address with the port of "0.0.0.0:PORT" or "[::]:PORT". For any other address and
// port it is that port of the proxy's loopback address. Without a valid endpoint it is the original
// destination. Connections to an original address are bound to a source address
// (applyInboundSource).
func (in InboundInput) applyTarget(c *clusterv3.Cluster) {
	if path, ok := strings.CutPrefix(in.Endpoint, config.SocketPrefix); ok {
		applyStatic(c, &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}})
		return
	}
	if at, err := netip.ParseAddrPort(in.Endpoint); err == nil {
		// the workload's own address, which is the original destination
		if at.Addr().IsUnspecified() {
			applyOriginal(c, uint32(at.Port()))
			applyInboundSource(c, in.Proxy)
			return
		}
		applyStatic(c, socketAddress(localhost(in.Proxy, at.Addr().Is4()), uint32(at.Port())))
		return
	}
	applyOriginal(c, 0)
	applyInboundSource(c, in.Proxy)
}

// applyOriginal forwards connections to their original destination, with another port if port is
// not 0. Envoy never removes such endpoints for being idle (neverCleaned).
func applyOriginal(c *clusterv3.Cluster, port uint32) {
	applyType(c, clusterv3.Cluster_ORIGINAL_DST)
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	c.CleanupInterval = &durationpb.Duration{Seconds: neverCleaned}
	if port != 0 {
		c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
			UpstreamPortOverride: wrapperspb.UInt32(port),
		}}
	}
}

// applyStatic makes the cluster connect to one fixed address.
func applyStatic(c *clusterv3.Cluster, a *corev3.Address) {
	applyType(c, clusterv3.Cluster_STATIC)
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: c.Name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a}},
		}}}},
	}
}

// socketAddress returns a TCP address; address must be an IP address.
func socketAddress(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// localhost returns the IPv4 loopback address if prefer4 is set and the proxy has IPv4, or if it
// has no IPv6; otherwise the IPv6 one. If the proxy has neither family, it returns the IPv4 one.
func localhost(p Proxy, prefer4 bool) string {
	if prefer4 && (p.IPv4 || !p.IPv6) || !p.IPv6 {
		return "127.0.0.1"
	}
	return "::1"
}
