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
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// InboundInput is all that the cluster of one of the workload's own ports depends on.
type InboundInput struct {
	// Number is the port on the workload, or that of the Sidecar's ingress listener.
	Number uint32
	// Port is the service's port, or that of the ingress listener.
	Port mesh.Port
	// Endpoint is where the traffic is sent, as IstioIngressListener.defaultEndpoint has it; "": where it was going.
	Endpoint string
	// Service is the oldest one at the port, nil if there is none; Names are those of all at it, encoded by encodeNames.
	Service *mesh.Service
	Names   string
	// Rule is the service's own, nil if there is none. Only its connection pool counts on this side.
	Rule *snapshot.DestinationRule
	// Sidecar is nil if none applies.
	Sidecar  *config.Config
	Settings *snapshot.Settings
	Proxy    Proxy
}

// Name gives the cluster's name.
func (in InboundInput) Name() mesh.ClusterName {
	return mesh.ClusterName{Direction: mesh.Inbound, Port: in.Number}
}

// neverCleaned keeps Envoy from forgetting the one address that an inbound cluster ever has. Envoy takes no more.
const neverCleaned = 9223372035 // seconds

// Inbound makes the cluster by which a proxy hands connections to its own workload. The limits that callers are given
// count here too: the workload's side must have room for what they are allowed to send.
func Inbound(in InboundInput) *clusterv3.Cluster {
	mesh := in.Settings.Mesh
	c := &clusterv3.Cluster{
		Name:        in.Name().String(),
		AltStatName: inboundStatName(mesh.GetInboundClusterStatName(), in.Service, in.Port, in.Number),
		Metadata:    in.metadata(),
	}
	in.target(c)
	pool := in.pool()
	applyConnectionPool(c, in.Settings, pool, nil)
	http := inboundProtocol(in.Port, mesh, pool.GetHttp())
	http.applyConnectionPool(pool)
	http.put(c)
	applySocketMark(c, in.Proxy.SocketMark)
	return c
}

// pool gives the limits: those of the Sidecar's listener, else of the Sidecar, else of the service's rule.
func (in InboundInput) pool() *networking.ConnectionPoolSettings {
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

// inboundProtocol says which HTTP the workload is spoken to: what its port is declared as, or what the client speaks.
func inboundProtocol(port mesh.Port, config *meshconfig.MeshConfig, pool *networking.ConnectionPoolSettings_HTTPSettings) *httpProtocol {
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

func (in InboundInput) metadata() *corev3.Metadata {
	f := fields{}
	f.putServices(decodeNames(in.Names)...)
	if in.Rule != nil && in.Rule.Spec.GetTrafficPolicy() != nil {
		f.putRule(in.Rule)
	}
	return f.proto()
}

// target says where connections go: to the address and port that they came for, unless another is named.
func (in InboundInput) target(c *clusterv3.Cluster) {
	if path, ok := strings.CutPrefix(in.Endpoint, "unix://"); ok {
		applyStatic(c, &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}})
		return
	}
	if at, err := netip.ParseAddrPort(in.Endpoint); err == nil {
		if at.Addr().IsUnspecified() { // the workload's own address, which is the one that the connection came for
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

// applyOriginal sends connections where they were going, to another port if one is given.
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

func applyStatic(c *clusterv3.Cluster, a *corev3.Address) {
	applyType(c, clusterv3.Cluster_STATIC)
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: c.Name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a}},
		}}}},
	}
}

func socketAddress(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// localhost gives the loopback address of the family asked for, or of the one that the proxy has.
func localhost(p Proxy, prefer4 bool) string {
	if prefer4 && (p.IPv4 || !p.IPv6) || !p.IPv6 {
		return "127.0.0.1"
	}
	return "::1"
}

// encodeNames writes names as text, so that they can be part of a comparable input: "host name namespace" by line.
func encodeNames(names []name) string {
	lines := make([]string, len(names))
	for i, n := range names {
		lines[i] = string(n.Host) + " " + n.Name + " " + n.Namespace
	}
	return strings.Join(lines, "\n")
}

func decodeNames(text string) []name {
	var names []name
	for line := range strings.Lines(text) {
		if parts := strings.Fields(line); len(parts) == 3 {
			names = append(names, name{mesh.Hostname(parts[0]), parts[1], parts[2]})
		}
	}
	return names
}
