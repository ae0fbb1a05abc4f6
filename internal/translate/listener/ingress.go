package listener

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// planIngress plans a listener for every ingress listener of the Sidecar that is not captured, and
// returns the ports of the captured ones, sorted. Of two with one port, the first is used. A
// listener with an uncaptured protocol, or on a port of the proxy, is left out with a Problem.
func (p *inboundPlan) planIngress(v *view.View) (captured []inboundPort) {
	seen := map[uint32]bool{}
	for i, l := range v.Ingress {
		port := ingressPort(v, l)
		field := fmt.Sprintf("spec.ingress[%d]", i)
		if seen[port.port] || !p.isServable(v, port.port, v.Sidecar.Key, field+".port.number") {
			continue
		}
		seen[port.port] = true
		if !port.protocol.Captured() {
			p.addProblem(
				v.Sidecar.Key,
				field+".port.protocol",
				l.GetPort().GetProtocol()+" is not captured: this listener is left out",
			)
			continue
		}
		if v.Key.Interception != noInterception && l.GetCaptureMode() != networking.CaptureMode_NONE {
			captured = append(captured, port)
			continue
		}
		if isOccupied(v.Settings, port.port) {
			p.addProblem(
				v.Sidecar.Key,
				field+".port.number",
				fmt.Sprintf("port %d is one of the proxy's own: this listener is left out", port.port),
			)
			continue
		}
		p.planBound(v, l, port, p.needsLocalDestination(v, i, l))
	}
	slices.SortFunc(captured, func(a, b inboundPort) int { return int(a.port) - int(b.port) })
	slices.SortFunc(p.specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return captured
}

// ingressPort returns the port of an ingress listener. If a service has the port as target, its
// host and port are used, else the Sidecar's name. With TLS settings the protocol is that inside
// TLS.
func ingressPort(v *view.View, l *networking.IstioIngressListener) inboundPort {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	number := l.GetPort().GetNumber()
	port := inboundPort{
		port: number, servicePort: number, hostPort: number, protocol: protocol,
		service: v.Sidecar.Name + "." + v.Sidecar.Namespace, from: v.Sidecar.Key,
	}
	if tls := l.GetTls(); tls != nil {
		port.protocol, port.tls = protocolInTLS(protocol), newTLS(tls, nil)
		if port.protocol.IsHTTP() {
			port.tls.Protocols = []string{"h2", "http/1.1"}
		}
	}
	if i := slices.IndexFunc(v.Inbound, func(i view.Instance) bool { return i.TargetPort == number }); i >= 0 {
		port.service, port.servicePort = string(v.Inbound[i].Service.Host), v.Inbound[i].Port.Number
	}
	return withLimits(v, port)
}

// protocolInTLS returns the protocol inside the TLS of a port.
func protocolInTLS(p mesh.Protocol) mesh.Protocol {
	if p == mesh.HTTPS {
		return mesh.HTTP
	}
	return mesh.TCP
}

// planBound plans a listener that clients connect to directly, at the bind address or else on all
// addresses. Unless the Sidecar configures certificates for it, it accepts mutual TLS and plaintext
// by PeerAuthentication; a connection that matches no chain is refused. localDestination is
// Spec.LocalDestination.
func (p *inboundPlan) planBound(
	v *view.View,
	l *networking.IstioIngressListener,
	port inboundPort,
	localDestination bool,
) {
	f := familyOf(v.Key)
	address := f.wildcard[0]
	if a, err := netip.ParseAddr(l.GetBind()); err == nil {
		address = a.Unmap().String()
	}
	at, more := f.at(address, port.port)
	s := Spec{
		Name:             listenerName(at.address, at.port),
		Address:          at.address,
		More:             more,
		Port:             at.port,
		Inbound:          true,
		Bind:             true,
		LocalDestination: localDestination, From: []config.Key{v.Sidecar.Key},
	}
	http, tcp := port.chains(at.address)
	peers := peersOf(v)
	mode := peers.modes.At(port.port)
	if port.tls == nil && mode != security.PeerAuthentication_MutualTLS_DISABLE {
		s.TLSInspector, s.HTTPInspector = true, http != nil && tcp != nil
		s.Chains, s.Default = peers.chains(mode, http, tcp), refusal(at.address, at.port)
		s.Default.Match = Match{}
		s.From = sortedKeys(append(s.From, peers.modes.From...))
		p.specs = append(p.specs, s)
		return
	}
	for _, c := range []*Chain{http, tcp} {
		if c != nil {
			// No inspector runs. A connection without TLS fails in the handshake.
			c.Match.Transport = ""
		}
	}
	switch {
	case tcp == nil:
		s.Default = *http
	case http == nil:
		s.Default = *tcp
	default:
		s.Chains, s.Default, s.HTTPInspector = []Chain{*http}, *tcp, true
	}
	p.specs = append(p.specs, s)
}
