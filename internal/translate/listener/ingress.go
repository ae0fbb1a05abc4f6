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

// ingressListener is an ingress listener of a Sidecar that the proxy serves. Connections to it are
// captured, or clients connect to it directly.
type ingressListener struct {
	*networking.IstioIngressListener
	index    int // in the Sidecar
	captured bool
	protocol mesh.Protocol                 // inside TLS, with TLS settings
	tls      *networking.ServerTLSSettings // nil without TLS settings, or if they are disabled
}

// servedIngress returns the ingress listeners of a View's Sidecar that the proxy serves, in their
// order. A listener with an uncaptured protocol and no TLS settings, on a port of the proxy, or on
// one for which the proxy lacks the privileges, is left out, with a Problem. A later listener with
// the port of an earlier one is never served, without a Problem. TLS settings are ignored, with a
// Problem, unless Features.SidecarIngressTLS is set. Unusable credentials are a Problem, but the
// listener stays.
func (p *inboundPlan) servedIngress(v *view.View) []ingressListener {
	var list []ingressListener
	seen := map[uint32]bool{}
	for i, l := range v.Ingress {
		number := l.GetPort().GetNumber()
		field := fmt.Sprintf("spec.ingress[%d]", i)
		if seen[number] || !p.isServable(v, number, v.Sidecar.Key, field+".port.number") {
			continue
		}
		seen[number] = true
		tls := l.GetTls()
		if tls != nil && !v.Settings.Features.SidecarIngressTLS {
			p.addProblem(v.Sidecar.Key, field+".tls",
				"ignored, PeerAuthentication applies: ENABLE_TLS_ON_SIDECAR_INGRESS is not set")
			tls = nil
		}
		captured := v.Key.Interception != noInterception && l.GetCaptureMode() != networking.CaptureMode_NONE
		protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
		if tls != nil {
			protocol = protocolInTLS(protocol)
		}
		switch {
		case !protocol.Captured():
			p.addProblem(v.Sidecar.Key, field+".port.protocol",
				l.GetPort().GetProtocol()+" is not captured: this listener is left out")
		case !captured && isOccupied(v.Settings, number):
			p.addProblem(v.Sidecar.Key, field+".port.number",
				fmt.Sprintf("port %d is one of the proxy's own: this listener is left out", number))
		case !captured && v.Key.Unprivileged && number < view.FirstUnprivilegedPort:
			p.addProblem(v.Sidecar.Key, field+".port.number",
				fmt.Sprintf("proxies without privileges cannot listen on port %d: this listener is left out", number))
		default:
			if fault := credentialsOf(v).fault(tls); fault != "" {
				p.addProblem(v.Sidecar.Key, field+".tls.credentialName", fault)
			}
			list = append(list, ingressListener{l, i, captured, protocol, tls})
		}
	}
	return list
}

// isServable reports whether a port of the workload differs from the ports on which the proxy
// receives captured connections. If not, it adds a Problem about the field of object.
func (p *inboundPlan) isServable(v *view.View, port uint32, object config.Key, field string) bool {
	m := v.Settings.Mesh
	if port != uint32(m.GetProxyListenPort()) && port != uint32(m.GetProxyInboundListenPort()) {
		return true
	}
	p.addProblem(object, field,
		fmt.Sprintf("port %d of the workload is one of the proxy's own ports: nothing is served there", port))
	return false
}

// address returns the address to which clients of an uncaptured listener connect: its bind address,
// or all addresses if that is no IP address. more are the additional addresses, of the other
// family.
func (l ingressListener) address(v *view.View) (at listenAddress, more []string) {
	f := familyOf(v)
	address := f.wildcard[0]
	if a, err := netip.ParseAddr(l.GetBind()); err == nil {
		address = a.Unmap().String()
	}
	return f.at(address, l.GetPort().GetNumber())
}

// boundNames returns the names of the inbound listeners of a View to which clients connect
// directly. The outbound listeners of its class may have the same names, and so the same addresses.
func boundNames(v *view.View) map[string]bool {
	names := map[string]bool{}
	for _, l := range new(inboundPlan).servedIngress(v) {
		if !l.captured {
			at, _ := l.address(v)
			names[at.name()] = true
		}
	}
	return names
}

// planIngress plans a listener for every served ingress listener of the Sidecar that is not
// captured, and returns the ports of the captured ones, sorted. It ignores the TLS settings of a
// listener, with a Problem, unless mutual TLS is disabled at its port: both cannot be served there.
func (p *inboundPlan) planIngress(v *view.View) (captured []inboundPort) {
	for _, l := range p.servedIngress(v) {
		mode := p.peers.modes.At(l.GetPort().GetNumber())
		if l.tls != nil && mode != security.PeerAuthentication_MutualTLS_DISABLE {
			p.addProblem(v.Sidecar.Key, fmt.Sprintf("spec.ingress[%d].tls", l.index), "ignored, PeerAuthentication mode "+
				mode.String()+" applies: the proxy terminates TLS of clients only at ports with mode DISABLE")
			l.tls = nil
		}
		port := ingressPort(v, l)
		if l.captured {
			captured = append(captured, port)
			continue
		}
		p.planBound(v, l, port)
	}
	slices.SortFunc(captured, func(a, b inboundPort) int { return int(a.port) - int(b.port) })
	slices.SortFunc(p.specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return captured
}

// ingressPort returns the port of an ingress listener. In traces it is named after the service that
// has the port as target, or after the Sidecar if there is none.
func ingressPort(v *view.View, l ingressListener) inboundPort {
	number := l.GetPort().GetNumber()
	port := inboundPort{
		port: number, servicePort: number, hostPort: number, protocol: l.protocol,
		service: v.Sidecar.Name + "." + v.Sidecar.Namespace, from: v.Sidecar.Key,
	}
	if l.tls != nil {
		port.tls = newTLS(l.tls, credentialsOf(v), nil)
		if port.protocol.IsHTTP() {
			port.tls.Protocols = []string{"h2", "http/1.1"}
		}
	}
	if i := slices.IndexFunc(v.Inbound, func(i view.Instance) bool { return i.TargetPort == number }); i >= 0 {
		port.service, port.servicePort = string(v.Inbound[i].Service.Host), v.Inbound[i].Port.Number
	}
	return withLimits(v, port)
}

// protocolInTLS returns the protocol inside the TLS of a port: HTTP for HTTPS, TCP for all others.
func protocolInTLS(p mesh.Protocol) mesh.Protocol {
	if p == mesh.HTTPS {
		return mesh.HTTP
	}
	return mesh.TCP
}

// planBound plans a listener that clients connect to directly, at the bind address or else on all
// addresses. If port.tls is set, it accepts only TLS with the certificates of the Sidecar.
// Otherwise PeerAuthentication decides whether it accepts mutual TLS, plaintext or both, and it
// closes connections that match no chain.
func (p *inboundPlan) planBound(v *view.View, l ingressListener, port inboundPort) {
	at, more := l.address(v)
	s := Spec{
		Name:             listenerName(at.address, at.port),
		Address:          at.address,
		More:             more,
		Port:             at.port,
		Inbound:          true,
		Bind:             true,
		LocalDestination: p.needsLocalDestination(v, l.index, l.IstioIngressListener),
		From:             []config.Key{v.Sidecar.Key},
	}
	http, tcp := port.chains(at.address)
	mode := p.peers.modes.At(port.port)
	if port.tls == nil && mode != security.PeerAuthentication_MutualTLS_DISABLE {
		s.TLSInspector, s.HTTPInspector = true, http != nil && tcp != nil
		s.Chains, s.Default = p.peers.chains(mode, http, tcp), refusal(at.address, at.port)
		s.Default.Match = Match{}
		s.From = sortedKeys(append(s.From, p.peers.modes.From...))
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
