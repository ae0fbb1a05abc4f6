package listener

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// httpProxy is the protocol of a Sidecar's egress listener that clients use as their HTTP proxy.
// Services never have it.
const httpProxy = "HTTP_PROXY"

// planEgressPort plans an egress listener with a port. Services without that port are ignored;
// without any service there is no listener. The port of an HTTP proxy or a socket is not that of a
// service. A protocol that is not captured, and TCP at a socket, are Problems.
func (p *planner) planEgressPort(l *networking.IstioEgressListener, services iter.Seq[serviceInput]) {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	_, planned := p.ports[l.GetPort().GetNumber()]
	switch {
	case p.ports != nil && !planned && !isSocket(l.GetBind()):
		return
	case isHTTPProxy(l):
		p.planHTTPProxyPort(l)
		return
	case !protocol.Captured():
		p.addProblem(
			p.in.sidecar.Key,
			"spec.egress.port.protocol",
			l.GetPort().GetProtocol()+" is not captured: this listener is left out",
		)
		return
	}
	for s := range services {
		if s.service.Resolution == mesh.Alias {
			continue
		}
		port, ok := portFor(s.service, l.GetPort().GetNumber())
		switch {
		case !ok:
		case port.Number == 0 && !protocol.IsHTTP():
			p.selectAddress(listenAddress{address: p.at.address})
			p.addProblem(
				p.in.sidecar.Key,
				"spec.egress.bind",
				fmt.Sprintf("connections to %s do not say which port of %s they are for", l.GetBind(), s.service.Host),
			)
		default:
			p.planPort(servicePort{s, port, protocol})
		}
	}
}

// portFor returns the port of a service for a listener's port. A socket (0) means the only port of
// the service; if it has several, the result is a zero port, because only requests name one.
func portFor(svc *mesh.Service, number uint32) (mesh.Port, bool) {
	captured := slices.DeleteFunc(slices.Clone(svc.Ports), func(p mesh.Port) bool { return !p.Protocol.Captured() })
	if number == 0 {
		if len(captured) == 1 {
			return captured[0], true
		}
		return mesh.Port{}, len(captured) > 0
	}
	i := slices.IndexFunc(captured, func(p mesh.Port) bool { return p.Number == number })
	if i < 0 {
		return mesh.Port{}, false
	}
	return captured[i], true
}

func isHTTPProxy(l *networking.IstioEgressListener) bool {
	return strings.EqualFold(l.GetPort().GetProtocol(), httpProxy)
}

// planHTTPProxyPort plans an egress listener that is an HTTP proxy, for services on any port, at
// the wildcard address unless another is set. Without services there is none, nor if its address is
// taken.
func (p *planner) planHTTPProxyPort(l *networking.IstioEgressListener) {
	if len(p.egress.services) == 0 {
		return
	}
	b := servicePort{
		serviceInput: p.egress.services[0],
		port:         mesh.Port{Number: l.GetPort().GetNumber()},
		protocol:     mesh.HTTP,
	}
	address := p.at.address
	if address == "" {
		address = p.family.wildcard[0]
	}
	if d := p.draftAt(b, address); d != nil && d.http == nil {
		p.addHTTP(b, address)
		d.http.AbsoluteURL, d.httpOnly = true, true
		for _, s := range p.egress.services {
			if s.service.Resolution == mesh.DynamicDNS {
				d.http.Lookup = p.requestLookup()
			}
		}
	}
}
