package listener

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
)

// policyProblems returns the Problems of a View's policies, except the ones that depend on the
// ports of the proxies (connectionProblems).
func (g *Generator) policyProblems(v *view.View) []config.Problem {
	return slices.Concat(g.authentications.For(v).Problems, g.authorizations.For(v).Problems)
}

// connectionProblems returns the ConnectionProblems of a View's policies that apply to its proxies:
// the ones about a port at which the proxies may serve connections that are not HTTP.
func (g *Generator) connectionProblems(v *view.View) (list []config.Problem) {
	found := g.authorizations.For(v).ConnectionProblems
	if len(found) == 0 {
		return nil
	}
	ports := portsOf(v)
	for _, p := range found {
		if ports.mayServeConnections(p) {
			list = append(list, p.Problem)
		}
	}
	return list
}

// proxyPorts are the ports at which a proxy serves clients.
type proxyPorts struct {
	// http has the known ports, and whether they are declared as HTTP.
	http map[uint32]bool
	// others is set if the proxy serves all other ports too.
	others bool
}

// portsOf returns the ports of a View's proxies: of a gateway's servers, else of the Sidecar's
// ingress listeners, or without these of services. For sidecars, ports of services are left out
// without interception. With it, all other ports are served too (others), and ports with a
// PeerAuthentication mode of their own are known, not as HTTP. An undeclared protocol, and a port
// of which one server is not HTTP, are not HTTP.
func portsOf(v *view.View) proxyPorts {
	p := proxyPorts{http: map[uint32]bool{}}
	if gateway := v.Gateway(); gateway != nil {
		for _, l := range gateway.Listeners {
			isHTTP := !slices.ContainsFunc(l.Servers, func(s *view.GatewayServer) bool { return !s.ServesHTTP() })
			earlier, known := p.http[l.Port]
			p.http[l.Port] = isHTTP && (earlier || !known)
		}
		return p
	}
	for _, l := range v.Ingress {
		protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
		p.addPort(l.GetPort().GetNumber(), protocol.IsHTTP())
	}
	if v.Key.Interception == noInterception {
		return p
	}
	p.others = true
	for _, i := range v.Inbound { // the oldest service of a port is the first
		if len(v.Ingress) == 0 {
			port, _ := portFor(i.Service, i.Port.Number) // The number may occur twice, with UDP first.
			p.addPort(i.TargetPort, port.Protocol.IsHTTP())
		}
	}
	for port := range v.Key.PeerModes(v.Snapshot).Ports {
		p.addPort(port, false)
	}
	return p
}

// addPort adds a known port. It does nothing if the port is known already.
func (p proxyPorts) addPort(port uint32, isHTTP bool) {
	if _, known := p.http[port]; !known {
		p.http[port] = isHTTP
	}
}

// mayServeConnections reports whether a port that the policy applies to may carry another protocol
// than HTTP. A known port does so if it is not HTTP. Unknown ports, whose traffic cannot be seen,
// count only if they are served (p.others) and the policy selects workloads. It must also name such
// a port, or apply to any port while none is known.
func (p proxyPorts) mayServeConnections(policy authorization.ConnectionProblem) bool {
	unknown := p.others && policy.Selects
	if policy.AnyPort {
		for _, isHTTP := range p.http {
			if !isHTTP {
				return true
			}
		}
		return unknown && len(p.http) == 0
	}
	return slices.ContainsFunc(policy.Ports, func(port uint32) bool {
		isHTTP, known := p.http[port]
		return known && !isHTTP || !known && unknown
	})
}
