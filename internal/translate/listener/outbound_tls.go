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

// tls takes connections that carry the application's own TLS: by server name where rules say so, or where the place is not
// the service's alone; or else all of them.
func (p *planner) tls(b bid, address string) {
	d := p.draft(b, address)
	if d == nil {
		return
	}
	own := p.ownAddress(d.address)
	other := d.tcpBy.service != nil && d.tcpBy.service != b.service
	if own && other && !d.tls {
		p.conflict(d.place, b, claimant{service: b.service}, d.tcpBy)
		return // a look at the first bytes could stall what the other service speaks
	}
	if routes := p.tlsRoutes(b, p.ownIP(d), nil); len(routes) > 0 {
		p.addTLS(d, b, routes)
		return
	}
	if other || !own && p.at.address == "" || b.service.Resolution == mesh.DynamicDNS { // whose names must be read
		p.addService(d, b, p.toService(b), nil)
		return
	}
	p.own(d, b, p.toService(b))
}

// tlsRanges does the same for destination ranges.
func (p *planner) tlsRanges(d *draft, b bid, ranges []string) {
	if routes := p.tlsRoutes(b, netip.Addr{}, ranges); len(routes) > 0 {
		p.addTLS(d, b, routes)
		return
	}
	p.addService(d, b, p.toService(b), ranges)
}

// addService adds the chain of a service known by its name.
func (p *planner) addService(d *draft, b bid, c routed, ranges []string) {
	names := []string{string(b.service.Host)}
	for _, alias := range p.aliases[b.service.Host] {
		names = append(names, string(alias))
	}
	sni, faults := serverNames(names)
	for _, f := range faults {
		p.problem(b.service.From, "spec.hosts", f+": TLS to this host is not told from other TLS on port "+number(d.port))
	}
	if len(sni) > 0 {
		c.match = Match{SNI: sni, Prefixes: ranges}
		p.add(d, b, c)
	}
}

func (p *planner) addTLS(d *draft, b bid, routes []routed) {
	for _, c := range routes {
		if len(c.match.SNI)+len(c.match.Prefixes) == 0 {
			p.own(d, b, c)
			continue
		}
		p.add(d, b, c)
	}
}

// tlsRoutes gives where VirtualServices lead the TLS connections of a service, by server name and destination. ip is the
// address of the place if it is one, ranges are those of the service.
func (p *planner) tlsRoutes(b bid, ip netip.Addr, ranges []string) []routed {
	var out []routed
	for _, vs := range p.rules.of(b.service.Host) {
		for i, r := range vs.Spec.GetTls() {
			for j, m := range r.GetMatch() {
				if !p.holds(m, b) {
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

func (p *planner) tlsMatch(vs *snapshot.VirtualService, field string, m *networking.TLSMatchAttributes, ip netip.Addr, ranges []string) (Match, bool) {
	sni, faults := serverNames(m.GetSniHosts())
	for _, f := range faults {
		p.problem(vs.Config.Key, field+".sniHosts", f)
	}
	if len(sni) == 0 && len(faults) > 0 {
		return Match{}, false
	}
	if slices.Contains(sni, anyName) {
		sni = nil
	}
	subnets, everywhere := prefixes(m.GetDestinationSubnets())
	switch {
	case everywhere:
		return Match{SNI: sni, Prefixes: ranges}, true
	case ip.IsValid():
		return Match{SNI: sni}, within(ip, subnets)
	default:
		return Match{SNI: sni, Prefixes: subnets}, len(subnets) > 0
	}
}

// anyName is the server name that means all connections, also those without one.
const anyName = "*"

// serverNames gives names as Envoy compares them: in lower case, each once, sorted. Of wildcards it knows "*" for one or
// more whole labels at the beginning; faults tell of others, which are left out.
func serverNames(names []string) (list, faults []string) {
	for _, n := range names {
		n = strings.ToLower(strings.TrimSuffix(n, "."))
		if rest, _ := strings.CutPrefix(n, "*."); n != anyName && strings.Contains(rest, "*") || n == "" {
			faults = append(faults, fmt.Sprintf("%q: a server name's wildcard must be a whole label at its beginning", n))
			continue
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), faults
}

// toService gives the way to the service itself.
func (p *planner) toService(b bid) routed {
	c := mesh.ClusterName{Direction: mesh.Outbound, Port: b.port.Number, Host: b.service.Host}
	out := routed{tcp: forward(c.String())}
	out.tcp.Mongo, out.tcp.Lookup = b.protocol == mesh.Mongo, p.lookup(b.service, b.port)
	out.tcp.Redis = b.protocol == mesh.Redis && p.in.settings.Features.RedisFilter
	p.in.follow(&out, b.rule, "", b.port.Number)
	return out
}
