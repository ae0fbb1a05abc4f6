package listener

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// addConnections adds the chain of a server that forwards connections, for its server names if it
// terminates TLS. Its destination is the first matching TCP route of the VirtualServices bound to
// the server; without one, it adds no chain. Destination subnets of matching routes are ignored,
// with a Problem (anyMatches). For listeners of the Gateway API with TLS it calls addTerminated
// instead.
func (p *gatewayPlanner) addConnections(s *view.GatewayServer) {
	if s.IsListener() && s.UsesTLS() {
		p.addTerminated(s)
		return
	}
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if !s.ServesHostOf(vs) {
			continue
		}
		for i, r := range vs.Spec.GetTcp() {
			if !p.anyMatches(vs, i, r.GetMatch(), s) {
				continue
			}
			to := p.weighted(vs, r.GetRoute(), servicePortOf(s))
			c := Chain{TCP: to.tcp}
			if s.UsesTLS() {
				c.Match.SNI, c.TLS = s.ServerNames, p.serverTLS(s)
			}
			p.addChain(s, c, to.from...)
			return
		}
	}
}

// addTerminated adds the chains of a listener of the Gateway API that terminates TLS: one for each
// VirtualService with TCP routes that is bound to it, with the destinations of its first TCP route.
// A chain has the server names that the listener and the VirtualService have in common and that no
// other chain has; without such a name there is none. It records the names in p.names.
func (p *gatewayPlanner) addTerminated(s *view.GatewayServer) {
	taken := map[string]bool{}
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if len(vs.Spec.GetTcp()) == 0 {
			continue
		}
		var names []string
		for _, h := range s.ServedHosts(vs) {
			name := string(h)
			_, other := p.names[name]
			if other = other && !slices.Contains(s.ServerNames, name); !other && !taken[name] {
				taken[name] = true
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		to := p.weighted(vs, vs.Spec.GetTcp()[0].GetRoute(), servicePortOf(s))
		p.addChain(s, Chain{Match: Match{SNI: names}, TLS: p.serverTLS(s), TCP: to.tcp}, to.from...)
	}
	for name := range taken {
		p.names[name] = s.Object.Key
	}
}

// anyMatches reports whether one of the matches of the TCP route with that index applies to a
// server. A route without matches applies to every server. Destination subnets of matches that
// apply are ignored, with a Problem about vs.
func (p *gatewayPlanner) anyMatches(
	vs *snapshot.VirtualService,
	route int,
	matches []*networking.L4MatchAttributes,
	s *view.GatewayServer,
) bool {
	found := len(matches) == 0
	for j, m := range matches {
		if p.appliesTo(m, s, vs) {
			found = true
			if len(m.GetDestinationSubnets()) > 0 {
				p.addProblem(vs.Config.Key, fmt.Sprintf("spec.tcp[%d].match[%d].destinationSubnets", route, j),
					"has no effect: the destination of a connection to a gateway is the gateway's own address")
			}
		}
	}
	return found
}

// appliesTo reports whether the conditions of a match on port and gateways apply to a server; unset
// ones apply to all. Conditions on the source are ignored: they are for sidecars.
func (p *gatewayPlanner) appliesTo(m l4Match, s *view.GatewayServer, vs *snapshot.VirtualService) bool {
	return (m.GetPort() == 0 || m.GetPort() == s.Port()) &&
		(len(m.GetGateways()) == 0 || slices.ContainsFunc(m.GetGateways(), func(g string) bool {
			return snapshot.ResolveGateway(g, vs.Config.Namespace) == s.Gateway
		}))
}

// servicePortOf returns the port of a server without a service, as weighted requires it.
func servicePortOf(s *view.GatewayServer) servicePort {
	port := mesh.Port{Name: s.Spec.GetPort().GetName(), Number: s.Port(), Protocol: s.Protocol}
	return servicePort{port: port, protocol: s.Protocol}
}

// addPassthrough plans the chains of a server that forwards TLS without terminating it: one for
// each TLS match of the VirtualServices bound to it, for the names that the server has. Invalid
// names, and names that another chain has, are Problems; without a name left there is no chain.
func (p *gatewayPlanner) addPassthrough(s *view.GatewayServer) {
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if !s.ServesHostOf(vs) {
			continue
		}
		for i, r := range vs.Spec.GetTls() {
			for j, m := range r.GetMatch() {
				if !p.appliesTo(m, s, vs) {
					continue
				}
				field := sniHostsField(i, j)
				names, faults := serverNames(m.GetSniHosts())
				for _, f := range faults {
					p.addProblem(vs.Config.Key, field, f)
				}
				if names = p.claimNames(vs.Config.Key, field, commonNames(names, s.ServerNames)); len(names) > 0 {
					to := p.weighted(vs, r.GetRoute(), servicePortOf(s))
					p.addChain(s, Chain{Match: Match{SNI: names}, TCP: to.tcp}, to.from...)
				}
			}
		}
	}
}

// claimNames returns the names that no other chain of the listener has, sorted and without
// duplicates, and records in p.names that rule has them. For each of the other names it adds a
// Problem at the field of rule.
func (p *gatewayPlanner) claimNames(rule config.Key, field string, names []string) []string {
	return withoutTaken(names, func(n string) bool {
		owner, taken := p.names[n]
		switch {
		case !taken:
			p.names[n] = rule
		case owner == config.Key{}:
			p.addProblem(rule, field,
				fmt.Sprintf("a server of the gateway ends TLS for %q itself: the connections are not handed on", n))
		default:
			p.addProblem(rule, field,
				fmt.Sprintf("connections that ask for %q go where %s leads them, which takes precedence", n, owner))
		}
		return taken
	})
}

// commonNames returns the intersection of two lists of server names. Of a wildcard and a name that
// it covers, it has the name. The result is sorted and has no duplicates.
func commonNames(a, b []string) []string {
	var list []string
	for _, x := range a {
		for _, y := range b {
			switch {
			case mesh.Hostname(y).Covers(mesh.Hostname(x)):
				list = append(list, x)
			case mesh.Hostname(x).Covers(mesh.Hostname(y)):
				list = append(list, y)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// mutualALPNs are the ALPN names of proxies that call each other with mutual TLS.
func mutualALPNs() []string {
	return []string{"istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"}
}

// addAutoPassthrough plans a chain for each cluster of the services that the server exposes. It
// forwards connections of proxies that request the cluster by server name
// (mesh.ClusterName.DefaultSNI). A name that another chain has is skipped; the others are recorded
// in p.names. No VirtualService needs to be bound to the server. Access policies and tunnels of
// DestinationRules do not apply.
func (p *gatewayPlanner) addAutoPassthrough(s *view.GatewayServer) {
	for n := range s.SNIClusters(p.v) {
		sni := n.DefaultSNI()
		if _, taken := p.names[sni]; taken {
			continue
		}
		p.names[sni] = s.Object.Key
		to := routed{tcp: forwardTo(sni)}
		rule := p.v.DestinationRule(n.Host)
		p.in.applyPolicy(&to, rule, n.Subset, n.Port)
		to.tcp.PassedThrough, to.tcp.Tunnel, to.tcp.TunnelByPost = true, "", false
		p.addChain(
			s,
			Chain{Match: Match{SNI: []string{sni}, ALPN: mutualALPNs()}, TCP: to.tcp},
			append(to.from, p.v.Service(n.Host).From)...,
		)
	}
}
