package listener

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// inboundPlan is the planned listeners of the workload's own ports.
type inboundPlan struct {
	peers    peers // how the proxies accept connections of other proxies
	specs    []Spec
	problems []config.Problem
}

// addProblem adds a Warning with code ListenerConflict about a field of the object key.
func (p *inboundPlan) addProblem(key config.Key, field, reason string) {
	p.problems = append(p.problems, warning(key, field, reason))
}

// inboundPort is one port of the workload.
type inboundPort struct {
	port        uint32 // on the workload
	servicePort uint32
	// hostPort is the port in the name of the virtual host, which EnvoyFilters match: the service's
	// port, or the port of the Sidecar's ingress listener.
	hostPort uint32
	protocol mesh.Protocol
	tls      *TLS // nil if the proxy does not terminate TLS of clients
	// idle and most are TCP.IdleTimeoutMS and TCP.MaxDurationMS of its connections.
	idle, most int64
	service    string // hostname, for traces
	// statPrefix is the prefix of its TCP statistics, or "" for the name of the cluster.
	statPrefix string
	from       config.Key
}

// cluster returns the name of the port's inbound cluster.
func (p inboundPort) cluster() string {
	return mesh.ClusterName{Direction: mesh.Inbound, Port: p.port}.String()
}

// planInbound plans the listener that receives all captured inbound connections: a chain for every
// port of the proxy's own services, and chains that forward the rest to their original destination.
// If the Sidecar has ingress listeners, these replace the services. Without capture there are only
// those, because the workload itself listens on its services' ports.
func planInbound(v *view.View) *inboundPlan {
	p := newInboundPlan(v)
	captured := p.capturedPorts(v)
	if v.Key.Interception != noInterception {
		p.specs = append(p.specs, planVirtualInbound(v, p.peers, captured))
	}
	return p
}

// newInboundPlan returns an empty plan for the proxies of v.
func newInboundPlan(v *view.View) *inboundPlan { return &inboundPlan{peers: peersOf(v)} }

// capturedPorts returns the ports of the workload whose connections are captured, sorted: of the
// Sidecar's ingress listeners, or if there are none, of services. Without interception it returns
// nil. It plans the ingress listeners that are not captured (p.specs). If the proxies refuse all
// connections at a port for lack of a certificate (refusesAll), it adds a Problem for each
// PeerAuthentication.
func (p *inboundPlan) capturedPorts(v *view.View) []inboundPort {
	if p.peers.refusesAll() {
		for _, k := range p.peers.modes.From {
			p.addProblem(k, "spec.mtls", "proxies without a certificate of the mesh refuse all connections in the mode STRICT")
		}
	}
	switch {
	case len(v.Ingress) > 0:
		return p.planIngress(v)
	case v.Key.Interception == noInterception:
		return nil
	default:
		return p.servicePorts(v)
	}
}

// planVirtualInbound plans the listener of captured connections. The given ports accept mutual TLS
// and plaintext by their mode (portChains), or only TLS with the user's certificates if tls is set.
// On ports declared as TCP, where the server may send first, bytes are not inspected for HTTP, nor
// for TLS if the mode is DISABLE. Connections to the listener's own port are refused, and all other
// ports are passed through, by their mode too.
func planVirtualInbound(v *view.View, peers peers, ports []inboundPort) Spec {
	addresses := familyOf(v).wildcard
	listen := uint32(v.Settings.Mesh.GetProxyInboundListenPort())
	s := Spec{
		Name: virtualInbound, Address: addresses[0], More: addresses[1:], Port: listen, Inbound: true, Bind: true,
		Transparent: v.Key.Interception == transparent, OriginalDst: true,
		HTTPInspector: true, NoInspection: []uint32{listen},
		Chains: []Chain{
			{
				Name:  "virtualInbound-blackhole",
				Match: Match{DestinationPort: listen},
				TCP:   forwardTo(mesh.BlackHoleCluster),
			},
		},
	}
	s.TLSInspector = peers.own != (mesh.Credentials{})
	for _, p := range ports {
		http, tcp := p.chains(addresses[0])
		s.Chains = append(s.Chains, peers.portChains(p.port, http, tcp, addresses[0])...)
		if p.tls != nil { // certificates of the user, with mode DISABLE
			s.TLSInspector = true
			s.Chains = append(s.Chains, refusal(addresses[0], p.port))
		} else {
			s.setInspection(p.port, http == nil, peers.modes.At(p.port))
		}
		if p.from != (config.Key{}) {
			s.From = append(s.From, p.from)
		}
	}
	for _, port := range peers.portsBeyond(ports) {
		http, tcp := passthroughChains(port)
		s.Chains = append(s.Chains, peers.portChains(port, http, tcp, addresses[0])...)
	}
	s.addRest(peers)
	slices.Sort(s.NoInspection)
	slices.Sort(s.NoHTTPInspection)
	s.From = sortedKeys(append(s.From, peers.modes.From...))
	return s
}

// setInspection adds a port that is declared as TCP (tcp) to the ports without inspectors: both
// inspectors if mode is DISABLE, else the HTTP inspector. It does nothing for other ports. Every
// change of these lists makes Envoy drain the whole listener, whereas an additional chain drains
// nothing. So the inspectors are the same for PERMISSIVE and STRICT, and for all protocols but
// declared TCP.
func (s *Spec) setInspection(port uint32, tcp bool, mode snapshot.PeerMode) {
	switch {
	case !tcp:
	case mode == security.PeerAuthentication_MutualTLS_DISABLE:
		s.NoInspection = append(s.NoInspection, port)
	default:
		s.NoHTTPInspection = append(s.NoHTTPInspection, port)
	}
}

// addRest plans the connections to all ports without chains of their own, which are forwarded to
// the original destination. It adds the chains of mutual TLS and plaintext HTTP that the mode
// allows. All other connections use the default chain, which forwards them as TCP, or closes them
// under STRICT.
func (s *Spec) addRest(p peers) {
	http, tcp := passthroughChains(0)
	for _, c := range p.chains(p.modes.Mode, http, tcp) {
		if c.TLS != nil || c.HTTP != nil { // The others are the default chain.
			c.Match.Transport = cmp.Or(c.Match.Transport, rawBuffer)
			s.Chains = append(s.Chains, c)
		}
	}
	s.Default = *tcp
	if p.modes.Mode == security.PeerAuthentication_MutualTLS_STRICT {
		s.Default.TCP = forwardTo(mesh.BlackHoleCluster)
	}
}

// chains returns the chains of a port: http or tcp alone if the protocol is declared, else http for
// plaintext HTTP and tcp otherwise. Except for HTTP, both have the same match: Envoy does not fall
// back if only one has a transport. With p.tls both terminate TLS; address determines their names.
func (p inboundPort) chains(address string) (http, tcp *Chain) {
	n := listenerName(address, p.port)
	http = &Chain{Name: n, HTTP: &HTTP{
		StatPrefix: statPrefix(mesh.Inbound, address, p.port), GRPCWeb: p.protocol == mesh.GRPCWeb,
		Inbound: &InboundRoute{
			Cluster: p.cluster(), VirtualHost: "inbound|http|" + formatNumber(p.hostPort),
			Operation: p.service + ":" + formatNumber(p.servicePort) + "/*",
			Retries:   !p.protocol.IsHTTP2(), // Its streams may stay open for hours.
		},
	}}
	tcp = &Chain{Name: n, TCP: forwardTo(p.cluster())}
	tcp.TCP.StatPrefix = cmp.Or(p.statPrefix, p.cluster())
	if p.tls != nil {
		http.TLS, http.Match.Transport = p.tls, tlsTransport
		tcp.TLS, tcp.Match.Transport = p.tls, tlsTransport
	}
	tcp.TCP.Mongo, tcp.TCP.IdleTimeoutMS, tcp.TCP.MaxDurationMS = p.protocol == mesh.Mongo, p.idle, p.most
	switch {
	case p.protocol.IsHTTP():
		return http, nil
	case p.protocol == mesh.Auto:
		http.Match.HTTP = true
		tcp.Name = n + "_tcp"
		return http, tcp
	default:
		return nil, tcp
	}
}

// refusal returns a chain that closes the connections to a port which no other chain of the port
// matches. An example is plaintext where the proxy terminates TLS. Without it they would be
// forwarded like connections to unknown ports, without certificates. address only determines the
// name of the chain.
func refusal(address string, port uint32) Chain {
	return Chain{
		Name:  listenerName(address, port) + "_plaintext",
		Match: Match{DestinationPort: port},
		TCP:   forwardTo(mesh.BlackHoleCluster),
	}
}

// servicePorts returns each port of the workload that a service has as target once, sorted, with
// the Sidecar's limits. Ports of the proxy itself are left out, with a Problem (isServable). If
// several services share one, it has the protocol and name of the oldest service.
func (p *inboundPlan) servicePorts(v *view.View) []inboundPort {
	var list []inboundPort
	for _, i := range v.Inbound {
		if len(list) > 0 && list[len(list)-1].port == i.TargetPort {
			continue // sorted by target port, the oldest service first
		}
		if !p.isServable(v, i.TargetPort, i.Service.From, "spec.ports") {
			continue
		}
		port, _ := portFor(i.Service, i.Port.Number) // The number may occur twice, with UDP first.
		list = append(list, withLimits(v, inboundPort{
			port: i.TargetPort, servicePort: i.Port.Number, hostPort: i.Port.Number, protocol: port.Protocol,
			service: string(i.Service.Host), from: i.Service.From,
			statPrefix: destination.StatName(
				v.Settings.Mesh.GetInboundClusterStatName(), i.Service, port, "", i.TargetPort),
		}))
	}
	return list
}

// withLimits returns p with the idle timeout and maximum duration of its connections: from the
// Sidecar's ingress listener at the port, or else from the Sidecar's inboundConnectionPool. Without
// a Sidecar, p is unchanged. Limits of a DestinationRule apply only to callers.
func withLimits(v *view.View, p inboundPort) inboundPort {
	if v.Sidecar == nil {
		return p
	}
	pool := config.Spec[*networking.Sidecar](v.Sidecar).GetInboundConnectionPool()
	for _, l := range v.Ingress {
		if l.GetPort().GetNumber() == p.port && l.GetConnectionPool() != nil {
			pool = l.GetConnectionPool()
			break
		}
	}
	p.idle = milliseconds(pool.GetTcp().GetIdleTimeout())
	p.most = max(milliseconds(pool.GetTcp().GetMaxConnectionDuration()), 0)
	return p
}
