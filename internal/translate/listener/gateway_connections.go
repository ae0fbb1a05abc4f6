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

// connections plans the chain of a server that forwards bytes: to where the first TCP route that holds leads, of the
// VirtualServices bound to it.
func (p *gatewayPlanner) connections(s *view.GatewayServer) {
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if !s.Binds(vs) {
			continue
		}
		for i, r := range vs.Spec.GetTcp() {
			if !p.anyHolds(vs, i, r.GetMatch(), s) {
				continue
			}
			to := p.weighted(vs, r.GetRoute(), bidOf(s))
			c := Chain{TCP: to.tcp}
			if s.TLS() {
				c.Match.SNI, c.TLS = s.ServerNames, p.tls(s)
			}
			p.add(s, c, to.from...)
			return
		}
	}
}

// anyHolds says whether one of a TCP route's matches holds for a server; no matches at all hold for every one.
func (p *gatewayPlanner) anyHolds(vs *snapshot.VirtualService, route int, matches []*networking.L4MatchAttributes, s *view.GatewayServer) bool {
	found := len(matches) == 0
	for j, m := range matches {
		if p.holdsFor(m, s, vs) {
			found = true
			if len(m.GetDestinationSubnets()) > 0 {
				p.problem(vs.Config.Key, fmt.Sprintf("spec.tcp[%d].match[%d].destinationSubnets", route, j),
					"a gateway is the destination itself: what it is called by tells nothing, and is not looked at")
			}
		}
	}
	return found
}

// holdsFor says whether what of a match is known beforehand holds for a server and the proxies of this View.
func (p *gatewayPlanner) holdsFor(m l4Match, s *view.GatewayServer, vs *snapshot.VirtualService) bool {
	return (m.GetPort() == 0 || m.GetPort() == s.Port()) && p.v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace()) &&
		(len(m.GetGateways()) == 0 || slices.ContainsFunc(m.GetGateways(), func(g string) bool {
			return snapshot.ResolveGateway(g, vs.Config.Namespace) == s.Gateway
		}))
}

// bidOf gives a server as weighted wants it.
func bidOf(s *view.GatewayServer) bid {
	return bid{port: mesh.Port{Number: s.Port(), Protocol: s.Protocol}, protocol: s.Protocol}
}

// passthrough plans the chains of a server that hands on TLS as it comes: one for each TLS match of the VirtualServices bound to
// it, for those names that the server has.
func (p *gatewayPlanner) passthrough(s *view.GatewayServer) {
	for _, vs := range p.v.VirtualServicesOf(s.Gateway) {
		if !s.Binds(vs) {
			continue
		}
		for i, r := range vs.Spec.GetTls() {
			for j, m := range r.GetMatch() {
				if !p.holdsFor(m, s, vs) {
					continue
				}
				field := fmt.Sprintf("spec.tls[%d].match[%d].sniHosts", i, j)
				names, faults := serverNames(m.GetSniHosts())
				for _, f := range faults {
					p.problem(vs.Config.Key, field, f)
				}
				if names = p.claim(vs.Config.Key, field, shared(names, s.ServerNames)); len(names) > 0 {
					to := p.weighted(vs, r.GetRoute(), bidOf(s))
					p.add(s, Chain{Match: Match{SNI: names}, TCP: to.tcp}, to.from...)
				}
			}
		}
	}
}

// claim takes those names that are free at the listener.
func (p *gatewayPlanner) claim(rule config.Key, field string, names []string) []string {
	return free(names, func(n string) bool {
		owner, taken := p.names[n]
		switch {
		case !taken:
			p.names[n] = rule
		case owner == config.Key{}:
			p.problem(rule, field, fmt.Sprintf("a server of the gateway ends TLS for %q itself: the connections are not handed on", n))
		default:
			p.problem(rule, field, fmt.Sprintf("connections that ask for %q go where %s leads them, which comes first", n, owner))
		}
		return taken
	})
}

// shared gives what two lists of server names have in common: of a wildcard and a name that it covers, the name.
func shared(a, b []string) []string {
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

// mutualALPNs are what proxies say that they speak when they call each other by mutual TLS.
func mutualALPNs() []string {
	return []string{"istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"}
}

// autoPassthrough plans a chain for each cluster of the services that the server has: connections between proxies that ask for
// it by name (mesh.ClusterName.DefaultSNI) are handed on to it. Nothing has to be bound to the server.
func (p *gatewayPlanner) autoPassthrough(s *view.GatewayServer) {
	for n := range s.SNIClusters(p.v) {
		sni := n.DefaultSNI()
		if _, taken := p.names[sni]; taken {
			continue
		}
		p.names[sni] = s.Object.Key
		to := routed{tcp: forward(sni)}
		rule := p.v.DestinationRule(n.Host)
		p.in.follow(&to, rule, n.Subset, n.Port)
		p.add(s, Chain{Match: Match{SNI: []string{sni}, ALPN: mutualALPNs()}, TCP: to.tcp}, append(to.from, p.v.Service(n.Host).From)...)
	}
}
