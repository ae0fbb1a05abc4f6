package listener

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// httpProxy is the protocol of a Sidecar's egress listener that clients use as their HTTP proxy. Services do not have it.
const httpProxy = "HTTP_PROXY"

// onPort lets the services of an egress listener that names its port bid for it. Those that have no such port do not bid:
// without any there is no listener. Clients of an HTTP proxy and of a socket do not call a service's port in the first place.
func (p *planner) onPort(l *networking.IstioEgressListener, services iter.Seq[serviceInput]) {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	_, planned := p.ports[l.GetPort().GetNumber()]
	switch {
	case p.ports != nil && !planned && !isSocket(l.GetBind()):
		return
	case isHTTPProxy(l):
		p.onHTTPProxy(l)
		return
	case !protocol.Captured():
		p.problem(p.in.sidecar.Key, "spec.egress.port.protocol", l.GetPort().GetProtocol()+" is not captured: this listener is left out")
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
			p.turnTo(place{address: p.at.address})
			p.problem(p.in.sidecar.Key, "spec.egress.bind", fmt.Sprintf("connections to %s do not say which port of %s they are for", l.GetBind(), s.service.Host))
		default:
			p.bid(bid{s, port, protocol})
		}
	}
}

// portFor finds the port of a service that a listener's port means. For a socket (0) that is the only one that it has; if
// it has several, only requests can say which.
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

// onHTTPProxy plans an egress listener that is an HTTP proxy, for services on any port.
func (p *planner) onHTTPProxy(l *networking.IstioEgressListener) {
	if len(p.egress.services) == 0 {
		return
	}
	b := bid{serviceInput: p.egress.services[0], port: mesh.Port{Number: l.GetPort().GetNumber()}, protocol: mesh.HTTP}
	address := p.at.address
	if address == "" {
		address = p.family.wildcard[0]
	}
	if d := p.draft(b, address); d != nil && d.http == nil {
		p.http(b, address)
		d.http.AbsoluteURL, d.httpOnly = true, true
		for _, s := range p.egress.services {
			if s.service.Resolution == mesh.DynamicDNS {
				d.http.Lookup = p.anyName()
			}
		}
	}
}
