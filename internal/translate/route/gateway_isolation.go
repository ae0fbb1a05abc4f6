package route

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// isIsolated reports whether requests for a host of server s belong to another server of its port.
// That is a listener of the Gateway API whose hostname covers the host and is more specific. It
// returns false unless s is a listener of the Gateway API.
func (p *gatewayPlanner) isIsolated(s *view.GatewayServer, host mesh.Hostname) bool {
	if !s.IsListener() {
		return false
	}
	for _, list := range [][]*view.GatewayServer{p.route.Servers, p.route.Siblings} {
		for _, o := range list {
			if o.IsListener() && o != s && o.Hosts[0].Host.Covers(host) &&
				o.Hosts[0].Host.MoreSpecific(s.Hosts[0].Host) < 0 {
				return true
			}
		}
	}
	return false
}

// isolateListeners adds a virtual host for the hostname of s, a listener of the Gateway API. So no
// request for it is routed by a listener with a less specific hostname. Requests for hosts of other
// TLS listeners of the port that have no virtual host yet are answered with 421: their connections
// asked for another server name. It does nothing for other servers.
func (p *gatewayPlanner) isolateListeners(s *view.GatewayServer) {
	if !s.IsListener() {
		return
	}
	p.virtualHost(s.Hosts[0].Host, s)
	for _, o := range p.route.Siblings {
		if h := o.Hosts[0].Host; o.IsListener() && p.hosts[h] == nil {
			p.virtualHost(h, s).misdirected = true
		}
	}
}
