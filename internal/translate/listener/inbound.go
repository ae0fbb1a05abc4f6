package listener

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// inboundPlan is the listeners on the workload's own side.
type inboundPlan struct {
	specs    []Spec
	problems []config.Problem
}

func (p *inboundPlan) problem(key config.Key, field, reason string) {
	p.problems = append(p.problems, config.Problem{Key: key, Field: field, Reason: reason, Severity: config.Warning})
}

// inboundPort is one port of the workload with what is known of it.
type inboundPort struct {
	port        uint32 // on the workload
	servicePort uint32
	// hostPort is the port in the name of the virtual host, by which EnvoyFilters find it: the service's, or that of the Sidecar's
	// ingress listener.
	hostPort uint32
	protocol mesh.Protocol
	tls      *TLS // nil where the proxy ends none
	// idle and most are TCP.IdleTimeoutMS and TCP.MaxDurationMS of its connections.
	idle, most int64
	service    string // hostname, for traces
	from       config.Key
}

func (p inboundPort) cluster() string {
	return mesh.ClusterName{Direction: mesh.Inbound, Port: p.port}.String()
}

// planInbound plans the listener that capture hands all inbound connections to: a chain for every port of the proxy's own
// services, and chains that pass the rest on as it came. Inbound listeners of a Sidecar take the services' place.
// Without capture there are only those: the workload listens on its services' ports itself.
func planInbound(v *view.View) *inboundPlan {
	p := new(inboundPlan)
	direct := v.Key.Interception == noInterception
	var captured []inboundPort
	switch {
	case len(v.Ingress) > 0:
		captured = p.ingress(v)
	case !direct:
		captured = p.services(v)
	}
	if !direct {
		p.specs = append(p.specs, virtual(v, captured))
	}
	return p
}

// virtual plans the listener of captured connections. It does not look at the first bytes where TCP is declared, for there
// the server may speak first.
func virtual(v *view.View, ports []inboundPort) Spec {
	addresses := familyOf(v.Key).wildcard
	listen := uint32(v.Settings.Mesh.GetProxyInboundListenPort())
	s := Spec{
		Name: virtualInbound, Address: addresses[0], More: addresses[1:], Port: listen, Inbound: true, Bind: true,
		Transparent: v.Key.Interception == transparent, OriginalDst: true,
		HTTPInspector: true, NoInspection: []uint32{listen},
		Chains: []Chain{{Name: "virtualInbound-blackhole", Match: Match{DestinationPort: listen}, TCP: forward(mesh.BlackHoleCluster)}},
	}
	peers := peersOf(v)
	s.TLSInspector = peers.own != (mesh.Credentials{})
	for _, p := range ports {
		http, tcp := p.chains(addresses[0])
		if p.tls != nil { // the user's own certificates, not the mesh's
			s.TLSInspector = true
			s.Chains = append(s.Chains, peers.plain(p.port, http, tcp)...)
			s.Chains = append(s.Chains, refusal(addresses[0], p.port))
		} else {
			s.Chains = append(s.Chains, peers.port(p.port, http, tcp, addresses[0])...)
			s.inspect(p.port, http == nil, peers.modes.At(p.port))
		}
		if p.from != (config.Key{}) {
			s.From = append(s.From, p.from)
		}
	}
	for _, port := range peers.elsewhere(ports) {
		http, tcp := peers.passed(port, addresses[0])
		s.Chains = append(s.Chains, peers.port(port, http, tcp, addresses[0])...)
	}
	s.rest(peers, addresses[0])
	slices.Sort(s.NoInspection)
	slices.Sort(s.NoHTTPInspection)
	s.From = sortedKeys(append(s.From, peers.modes.From...))
	return s
}

// inspect says which inspectors look at what comes to a port. Each change of that makes Envoy drain the whole listener, where a
// chain more harms nobody: so it is the same for PERMISSIVE and STRICT, and for all but declared TCP.
func (s *Spec) inspect(port uint32, tcp bool, mode snapshot.PeerMode) {
	switch {
	case !tcp:
	case mode == security.PeerAuthentication_MutualTLS_DISABLE:
		s.NoInspection = append(s.NoInspection, port)
	default:
		s.NoHTTPInspection = append(s.NoHTTPInspection, port)
	}
}

// rest plans what becomes of connections to all other ports.
func (s *Spec) rest(p peers, address string) {
	http, tcp := p.passed(0, address)
	for _, c := range p.chains(p.modes.Mode, http, tcp) {
		if c.TLS != nil || c.HTTP != nil { // the others are the default
			c.Match.Transport = cmp.Or(c.Match.Transport, rawBuffer)
			s.Chains = append(s.Chains, c)
		}
	}
	s.Default = *tcp
	if p.modes.Mode == security.PeerAuthentication_MutualTLS_STRICT {
		s.Default.TCP = forward(mesh.BlackHoleCluster)
	}
}

// chains gives the chains of a port: one where the protocol is declared, or else one for HTTP and one for the rest. Both
// match alike but for that: Envoy would not fall back from one to the other if only one of them named a transport.
func (p inboundPort) chains(address string) (http, tcp *Chain) {
	n := name(address, p.port)
	http = &Chain{Name: n, HTTP: &HTTP{
		StatPrefix: statPrefix(mesh.Inbound, address, p.port), GRPCWeb: p.protocol == mesh.GRPCWeb,
		Inbound: &InboundRoute{
			Cluster: p.cluster(), VirtualHost: "inbound|http|" + number(p.hostPort),
			Operation: p.service + ":" + number(p.servicePort) + "/*",
			NoRetry:   p.protocol.IsHTTP2(), // streams may stay open for hours
		},
	}}
	tcp = &Chain{Name: n, TCP: forward(p.cluster())}
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

// refusal ends connections to a port at which the proxy ends TLS, and that carry none: without it they would pass by the
// certificates, on to where unknown connections go.
func refusal(address string, port uint32) Chain {
	return Chain{Name: name(address, port) + "_plaintext", Match: Match{DestinationPort: port}, TCP: forward(mesh.BlackHoleCluster)}
}

// services gives each port of the workload once: of several services on one, the oldest gives the protocol.
func (p *inboundPlan) services(v *view.View) []inboundPort {
	var list []inboundPort
	for _, i := range v.Inbound {
		if len(list) > 0 && list[len(list)-1].port == i.TargetPort {
			continue // sorted by target port, the oldest service first
		}
		if !p.servable(v, i.TargetPort, i.Service.From, "spec.ports") {
			continue
		}
		port, _ := portFor(i.Service, i.Port.Number) // the number may be there twice, for UDP first
		list = append(list, limited(v, inboundPort{
			port: i.TargetPort, servicePort: i.Port.Number, hostPort: i.Port.Number, protocol: port.Protocol,
			service: string(i.Service.Host), from: i.Service.From,
		}))
	}
	return list
}

// limited sets how long a port's connections may be quiet, and be at all: as the Sidecar says for its listener, or else for all
// of what comes in. What a DestinationRule says of it is for callers.
func limited(v *view.View, p inboundPort) inboundPort {
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

// servable says whether a port of the workload is not one at which the proxy takes all connections.
func (p *inboundPlan) servable(v *view.View, port uint32, object config.Key, field string) bool {
	m := v.Settings.Mesh
	if port != uint32(m.GetProxyListenPort()) && port != uint32(m.GetProxyInboundListenPort()) {
		return true
	}
	p.problem(object, field, fmt.Sprintf("port %d of the workload is the proxy's own: nothing is served there", port))
	return false
}
