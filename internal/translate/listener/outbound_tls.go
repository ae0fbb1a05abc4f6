package listener

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// addTLS adds connections with TLS of the application: by server name if rules match it, or if the
// address is shared; otherwise all connections. An own address that another service uses for TCP is
// a conflict, and nothing is added.
func (p *planner) addTLS(b servicePort, address string) {
	d := p.draftAt(b, address)
	if d == nil {
		return
	}
	own := p.isOwnAddress(d.address)
	other := d.tcpBy.service != nil && d.tcpBy.service != b.service
	if own && other && !d.tls {
		p.addConflict(d.listenAddress, b, candidate{service: b.service}, d.tcpBy)
		return // Inspecting the first bytes could stall the protocol of the other service.
	}
	if routes := p.tlsRoutes(b, p.ownIP(d), nil); len(routes) > 0 {
		p.addTLSChains(d, b, routes)
		return
	}
	// Its server names must be inspected.
	if other || !own && p.at.address == "" || b.service.Resolution == mesh.DynamicDNS {
		p.addServiceChain(d, b, p.toService(b), nil)
		return
	}
	p.setOwner(d, b, p.toService(b))
}

// addTLSRanges does the same for destination ranges.
func (p *planner) addTLSRanges(d *draft, b servicePort, ranges []string) {
	if routes := p.tlsRoutes(b, netip.Addr{}, ranges); len(routes) > 0 {
		p.addTLSChains(d, b, routes)
		return
	}
	p.addServiceChain(d, b, p.toService(b), ranges)
}

// addServiceChain adds a chain that matches a service, and its aliases, by their server names.
// Names that Envoy cannot match are Problems; without any other name there is no chain.
func (p *planner) addServiceChain(d *draft, b servicePort, c routed, ranges []string) {
	names := []string{string(b.service.Host)}
	for _, alias := range p.aliases[b.service.Host] {
		names = append(names, string(alias))
	}
	sni, faults := serverNames(names)
	for _, f := range faults {
		p.addProblem(
			b.service.From,
			"spec.hosts",
			f+": TLS to this host cannot be distinguished from other TLS on port "+formatNumber(d.port),
		)
	}
	if len(sni) > 0 {
		c.match = Match{SNI: sni, Prefixes: ranges}
		p.addChain(d, b, c)
	}
}

func (p *planner) addTLSChains(d *draft, b servicePort, routes []routed) {
	for _, c := range routes {
		if len(c.match.SNI)+len(c.match.Prefixes) == 0 {
			p.setOwner(d, b, c)
			continue
		}
		p.addChain(d, b, c)
	}
}

// tlsRoutes returns the destinations of the TLS connections of a service, by server name and
// destination. ip is the address of the listener if it is a single one, ranges are the service's.
// Where routes of the Gateway API have a rule for the port, VirtualServices of lower precedence are
// not used.
func (p *planner) tlsRoutes(b servicePort, ip netip.Addr, ranges []string) []routed {
	var out []routed
	rank := 0
	for _, vs := range p.rules.rulesFor(b.service.Host) {
		if len(out) > 0 && precedenceOf(vs) != rank {
			break
		}
		rank = precedenceOf(vs)
		for i, r := range vs.Spec.GetTls() {
			for j, m := range r.GetMatch() {
				if !p.applies(m, b) {
					continue
				}
				to, ok := p.tlsMatch(vs, fmt.Sprintf("spec.tls[%d].match[%d]", i, j), m, ip, ranges)
				if ok {
					c := p.weighted(vs, r.GetRoute(), b)
					c.match = to
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// tlsMatch returns the Match of a TLS route's match at ip, if it is valid, or in ranges. ok is
// false if it matches nothing there. Server names that Envoy cannot match are Problems of vs.
func (p *planner) tlsMatch(
	vs *snapshot.VirtualService,
	field string,
	m *networking.TLSMatchAttributes,
	ip netip.Addr,
	ranges []string,
) (Match, bool) {
	sni, faults := serverNames(m.GetSniHosts())
	for _, f := range faults {
		p.addProblem(vs.Config.Key, field+".sniHosts", f)
	}
	if len(sni) == 0 && len(faults) > 0 {
		return Match{}, false
	}
	if slices.Contains(sni, anyName) {
		sni = nil
	}
	subnets, everywhere := parseSubnets(m.GetDestinationSubnets())
	switch {
	case everywhere:
		return Match{SNI: sni, Prefixes: ranges}, true
	case ip.IsValid():
		return Match{SNI: sni}, containsIP(ip, subnets)
	default:
		return Match{SNI: sni, Prefixes: subnets}, len(subnets) > 0
	}
}

// anyName is the server name that matches all connections, including those without one.
const anyName = "*"

// serverNames returns names as Envoy compares them: in lower case, sorted, without duplicates.
// Envoy supports only wildcards "*" for one or more whole labels at the beginning; faults describe
// others, which are left out.
func serverNames(names []string) (list, faults []string) {
	for _, n := range names {
		n = strings.ToLower(strings.TrimSuffix(n, "."))
		if rest, _ := strings.CutPrefix(n, "*."); n != anyName && strings.Contains(rest, "*") || n == "" {
			faults = append(
				faults,
				fmt.Sprintf("%q: a server name's wildcard must be a whole label at its beginning", n),
			)
			continue
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), faults
}

// toService returns the service itself as destination, with the policy of its DestinationRule.
// Redis has its own filter only if the feature is on.
func (p *planner) toService(b servicePort) routed {
	c := mesh.ClusterName{Direction: mesh.Outbound, Port: b.port.Number, Host: b.service.Host}
	out := routed{tcp: forwardTo(c.String())}
	out.tcp.Mongo, out.tcp.Lookup = b.protocol == mesh.Mongo, p.lookupOfConnections(b.service, b.port)
	out.tcp.Redis = b.protocol == mesh.Redis && p.in.settings.Features.RedisFilter
	p.in.applyPolicy(&out, b.rule, "", b.port.Number)
	return out
}
