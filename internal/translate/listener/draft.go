package listener

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// draft is an outbound listener under construction.
type draft struct {
	listenAddress
	name string
	more []string
	// bind is set if the proxy listens on the address itself. Connections then have no original
	// destination to fall back to.
	bind bool
	// locked is set for the listeners of a Sidecar with a port: the listener without a port adds
	// nothing to them.
	locked bool
	// http receives connections with HTTP, by RDS; nil if the listener has none.
	http *HTTP
	// httpOnly is set if all connections carry HTTP, so that no inspector is needed.
	httpOnly bool
	chains   []Chain // by server name or destination range
	claims   map[matchKey]candidate
	// tcp receives connections that match no chain; tcpBy is its owner, and tls is set if it
	// carries TLS.
	tcp   *TCP
	tcpBy candidate
	tls   bool
	from  []config.Key
}

// addOrigins adds the objects that a service derives from, and more, to d.from: the listener
// derives from them.
func (d *draft) addOrigins(svc *mesh.Service, more ...config.Key) {
	d.from = append(svc.AppendObjects(d.from), more...)
}

// candidate is a service that requests connections, by itself or by a VirtualService for it.
type candidate struct {
	service *mesh.Service
	rule    config.Key
}

// conflictsWith reports whether two candidates want the same connections for different
// destinations. It returns false if one VirtualService routes both services, and if only one of
// them is by a rule for the same service: a service keeps the connections that its own
// VirtualService does not match.
func (c candidate) conflictsWith(o candidate) bool {
	none := config.Key{}
	if c.service == o.service {
		return c.rule != none && o.rule != none && c.rule != o.rule
	}
	return c.rule == none || c.rule != o.rule
}

// addConflict adds a Conflict to the plan: the service of b, or the rule by.rule, does not receive
// connections at an address, because winner does. A zero winner is the proxy itself.
func (p *planner) addConflict(at listenAddress, b servicePort, by, winner candidate) {
	p.plan.conflicts = append(p.plan.conflicts, Conflict{
		Listener: listenerName(at.address, at.port), Service: b.service, Port: b.port, Rule: by.rule,
		Winner: winner.service, WinnerRule: winner.rule,
	})
}

// addHTTP makes a listener handle HTTP, for all services planned there. Except at the captured
// wildcard address, all its connections are then assumed to carry HTTP (d.httpOnly). If it already
// handles HTTP, only GRPCWeb of b is added and, if the service is dynamic, its Lookup and its
// origins.
func (p *planner) addHTTP(d *draft, b servicePort) {
	if d.http != nil {
		d.http.GRPCWeb = d.http.GRPCWeb || b.protocol == mesh.GRPCWeb
		if l := p.lookupOfRequests(b.service); b.service.Resolution == mesh.DynamicDNS {
			d.http.Lookup = l
			d.addOrigins(b.service)
		}
		return
	}
	d.http = &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port),
		Route:      formatNumber(d.port),
		GRPCWeb:    b.protocol == mesh.GRPCWeb,
		Lookup:     p.lookupOfRequests(b.service),
	}
	if config.IsSocket(d.address) {
		d.http.Route = d.address
	}
	d.httpOnly = d.address != p.family.wildcard[0] || d.bind
	d.addOrigins(b.service)
}

// requestLookup returns a Lookup that resolves the hosts of requests, in the families of the
// proxies.
func (p *planner) requestLookup() Lookup { return Lookup{IPv4: p.family.ipv4, IPv6: p.family.ipv6} }

// lookupOfRequests returns the Lookup of an HTTP listener: requestLookup if svc is dynamic or the
// outbound policy resolves unknown hosts, otherwise the zero value.
func (p *planner) lookupOfRequests(svc *mesh.Service) Lookup {
	if svc.Resolution == mesh.DynamicDNS || p.in.byName {
		return p.requestLookup()
	}
	return Lookup{}
}

// addAuto adds a port without a declared protocol: HTTP is routed, the rest forwarded. At an
// address of its own the service has its own routes; elsewhere requests are routed by host. An own
// address that another service uses for TCP is a conflict, and nothing is added.
func (p *planner) addAuto(d *draft, b servicePort) {
	own := p.isOwnAddress(d.address)
	if own && d.tcpBy.service != nil && d.tcpBy.service != b.service {
		p.addConflict(d.listenAddress, b, candidate{service: b.service}, d.tcpBy)
		return // Inspecting the first bytes could stall the protocol of the other service.
	}
	if d.http == nil {
		p.addHTTP(d, b)
		if own {
			d.http.Route = string(b.service.Host) + ":" + formatNumber(b.port.Number)
		}
	}
	p.addTCP(d, b)
}

// isOwnAddress reports whether the listener's address is one of the service's own: not the wildcard
// address, and not the address of an egress listener.
func (p *planner) isOwnAddress(address string) bool {
	return p.at.address == "" && address != p.family.wildcard[0]
}

// addTCP makes the service the owner of the connections that are neither HTTP nor match a chain,
// and adds the chains of its routes by destination.
func (p *planner) addTCP(d *draft, b servicePort) { p.setOwner(d, b, p.addTCPChains(d, b)) }

// addTCPChains adds the chains of a service's routes by destination range, and returns the
// destination of all other connections.
func (p *planner) addTCPChains(d *draft, b servicePort) routed {
	r := p.tcpRoutes(b, p.ownIP(d))
	for _, c := range r.ranged {
		p.addChain(d, b, c)
	}
	return r.rest
}

// ownIP returns the address of a listener if it is one of the service's own (isOwnAddress): routes
// by destination are then decided during planning. Otherwise, and for an address that is not an IP,
// it returns the zero Addr.
func (p *planner) ownIP(d *draft) netip.Addr {
	if !p.isOwnAddress(d.address) {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(d.address)
	return a
}

// addTLS adds connections with TLS of the application, to ranges if there are any. They are matched
// by server name if rules match it or the address is shared; otherwise the service becomes the
// owner of all connections. An own address that another service uses for TCP is a conflict, and
// nothing is added.
func (p *planner) addTLS(d *draft, b servicePort, ranges []string) {
	own := p.isOwnAddress(d.address)
	other := d.tcpBy.service != nil && d.tcpBy.service != b.service
	if own && other && !d.tls {
		p.addConflict(d.listenAddress, b, candidate{service: b.service}, d.tcpBy)
		return // Inspecting the first bytes could stall the protocol of the other service.
	}
	if routes := p.tlsRoutes(b, p.ownIP(d), ranges); len(routes) > 0 {
		p.addTLSChains(d, b, routes)
		return
	}
	to := p.toService(b)
	// Its server names must be inspected.
	if other || !own && p.at.address == "" || b.service.Resolution == mesh.DynamicDNS {
		p.addServiceChain(d, b, to, ranges)
		return
	}
	p.setOwner(d, b, to)
}

// addTLSChains adds a chain for each of routes, the TLS routes of a service. A route that matches
// all connections makes the service the owner of the connections that match no chain.
func (p *planner) addTLSChains(d *draft, b servicePort, routes []routed) {
	for _, c := range routes {
		if len(c.match.SNI)+len(c.match.Prefixes) == 0 {
			p.setOwner(d, b, c)
			continue
		}
		p.addChain(d, b, c)
	}
}

// addServiceChain adds a chain with destination c that matches a service, and its aliases, by their
// server names, and ranges if there are any. Names that Envoy cannot match are Problems; without
// any other name it adds no chain.
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

// addRanges adds chains for destination ranges, which it sorts in place, to the listener d of the
// wildcard address. Envoy matches the range before the protocol, so the chains of a range must
// handle all of its connections. Without a declared protocol, plaintext HTTP gets a chain too.
func (p *planner) addRanges(d *draft, b servicePort, ranges []string) {
	slices.Sort(ranges)
	if b.protocol.IsTLS() {
		p.addTLS(d, b, ranges)
		return
	}
	rest := p.addTCPChains(d, b)
	before := len(d.chains)
	rest.match = Match{Prefixes: ranges}
	p.addChain(d, b, rest)
	if b.protocol != mesh.Auto || len(d.chains) == before {
		return
	}
	// Plaintext HTTP has its own chain, so the other chain is repeated for plaintext and for any
	// transport.
	plain := d.chains[before]
	plain.Match.Transport = rawBuffer
	http := Chain{Match: plain.Match, HTTP: &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port),
		Route:      string(b.service.Host) + ":" + formatNumber(b.port.Number),
	}}
	http.Match.HTTP = true
	d.chains = append(d.chains, http, plain)
}

// setOwner makes the service of b the owner of the connections that match no chain, with
// destination c. If the draft has an owner, nothing changes; it is recorded as a conflict unless
// both want the same destination (conflictsWith).
func (p *planner) setOwner(d *draft, b servicePort, c routed) {
	by := candidate{b.service, c.rule}
	switch {
	case d.tcp == nil:
		d.tcp, d.tcpBy, d.tls = c.tcp, by, b.protocol.IsTLS()
		d.addOrigins(b.service, c.from...)
	case by.conflictsWith(d.tcpBy):
		p.addConflict(d.listenAddress, b, by, d.tcpBy)
	}
}

// addChain adds a chain for the part of the match c.match that no other chain has, and claims that
// part in d.claims. The rest is recorded as a conflict, if its owner wants another destination
// (conflictsWith). If nothing is left, it adds no chain.
func (p *planner) addChain(d *draft, b servicePort, c routed) {
	by := candidate{b.service, c.rule}
	got, ok, lost := d.claimMatches(c.match, by)
	if lost != nil && by.conflictsWith(*lost) {
		p.addConflict(d.listenAddress, b, by, *lost)
	}
	if !ok {
		return
	}
	d.chains = append(d.chains, Chain{Match: got, TCP: c.tcp})
	d.addOrigins(b.service, c.from...)
}

// matchKey is one destination range and server name; "" means all. No two services have the same
// one, because Envoy refuses a listener with two chains for the same connections.
type matchKey struct{ prefix, sni string }

// claimMatches assigns the free ranges and names of a match to by in d.claims, and returns them. A
// server name is free only if it is free in all ranges of the match. ok is false if none is free.
// lost is the owner of the first part that is not free, or nil.
func (d *draft) claimMatches(m Match, by candidate) (got Match, ok bool, lost *candidate) {
	taken := func(prefix, sni string) bool {
		owner, there := d.claims[matchKey{prefix, sni}]
		if there && lost == nil {
			lost = &owner
		}
		return there
	}
	if len(m.SNI) > 0 {
		m.SNI = withoutTaken(m.SNI, func(sni string) bool {
			return slices.ContainsFunc(orAny(m.Prefixes), func(p string) bool { return taken(p, sni) })
		})
		ok = len(m.SNI) > 0
	} else {
		m.Prefixes = withoutTaken(m.Prefixes, func(p string) bool { return taken(p, "") })
		ok = len(m.Prefixes) > 0
	}
	if !ok {
		return Match{}, false, lost
	}
	if d.claims == nil {
		d.claims = map[matchKey]candidate{}
	}
	for _, p := range orAny(m.Prefixes) {
		for _, sni := range orAny(m.SNI) {
			d.claims[matchKey{p, sni}] = by
		}
	}
	return m, true, lost
}

// withoutTaken returns the values for which taken returns false, sorted, without duplicates. It
// does not change values.
func withoutTaken(values []string, taken func(string) bool) []string {
	list := slices.DeleteFunc(slices.Clone(values), taken)
	slices.Sort(list)
	return slices.Compact(list)
}

// orAny returns values, or a list of "" (any) if values is empty.
func orAny(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}
