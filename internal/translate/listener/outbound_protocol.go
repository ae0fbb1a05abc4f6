package listener

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// http makes a place one for HTTP, for all services that bid for it. Everywhere but at the wildcard address that connections
// are captured at, all connections are taken to carry HTTP.
func (p *planner) http(b bid, address string) {
	d := p.draft(b, address)
	if d == nil {
		return
	}
	if d.http != nil {
		d.http.GRPCWeb = d.http.GRPCWeb || b.protocol == mesh.GRPCWeb
		if l := p.lookupOfRequests(b.service); b.service.Resolution == mesh.DynamicDNS {
			d.http.Lookup = l
			d.from = b.service.AppendObjects(d.from)
		}
		return
	}
	d.http = &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port), Route: number(d.port), GRPCWeb: b.protocol == mesh.GRPCWeb,
		Lookup: p.lookupOfRequests(b.service),
	}
	if isSocket(d.address) {
		d.http.Route = d.address
	}
	d.httpOnly = d.address != p.family.wildcard[0] || d.bind
	d.from = b.service.AppendObjects(d.from)
}

// auto takes a place for a port whose protocol is not declared: HTTP is read, the rest forwarded. At an address of its own
// the service has routes of its own; elsewhere requests say whose they are.
func (p *planner) auto(b bid, address string) {
	d := p.draft(b, address)
	if d == nil {
		return
	}
	own := p.ownAddress(d.address)
	if own && d.tcpBy.service != nil && d.tcpBy.service != b.service {
		p.conflict(d.place, b, claimant{service: b.service}, d.tcpBy)
		return // a look at the first bytes could stall what the other service speaks
	}
	if d.http == nil {
		p.http(b, address)
		if own {
			d.http.Route = string(b.service.Host) + ":" + number(b.port.Number)
		}
	}
	p.tcpAt(d, b)
}

// ownAddress says whether an address is one of the bidder's own: where services are called, and not the wildcard.
func (p *planner) ownAddress(address string) bool {
	return p.at.address == "" && address != p.family.wildcard[0]
}

func (p *planner) tcp(b bid, address string) {
	if d := p.draft(b, address); d != nil {
		p.tcpAt(d, b)
	}
}

// tcpAt takes what of a place's connections is neither HTTP nor another's chain.
func (p *planner) tcpAt(d *draft, b bid) {
	r := p.tcpRoutes(b, p.ownIP(d))
	for _, c := range r.ranged {
		p.add(d, b, c)
	}
	p.own(d, b, r.rest)
}

// ownIP gives the address of a place if it is the service's own: routes by destination are decided there and then.
func (p *planner) ownIP(d *draft) netip.Addr {
	if !p.ownAddress(d.address) {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(d.address)
	return a
}

// own makes the service the owner of a place's plain connections, unless another is.
func (p *planner) own(d *draft, b bid, c routed) {
	by := claimant{b.service, c.rule}
	switch {
	case d.tcp == nil:
		d.tcp, d.tcpBy, d.tls = c.tcp, by, b.protocol.IsTLS()
		d.from = append(b.service.AppendObjects(d.from), c.from...)
	case by.contends(d.tcpBy):
		p.conflict(d.place, b, by, d.tcpBy)
	}
}

// add adds a chain for what of its match is free.
func (p *planner) add(d *draft, b bid, c routed) {
	by := claimant{b.service, c.rule}
	got, ok, lost := d.claim(c.match, by)
	if lost != nil && by.contends(*lost) {
		p.conflict(d.place, b, by, *lost)
	}
	if !ok {
		return
	}
	d.chains = append(d.chains, Chain{Match: got, TCP: c.tcp})
	d.from = append(b.service.AppendObjects(d.from), c.from...)
}

// ranges takes destination ranges of the wildcard address. Envoy looks at the range before it looks at what the connection
// carries, so the chains of a range stand for all of its connections.
func (p *planner) ranges(b bid, ranges []string) {
	d := p.draft(b, p.family.wildcard[0])
	if d == nil {
		return
	}
	slices.Sort(ranges)
	if b.protocol.IsTLS() {
		p.tlsRanges(d, b, ranges)
		return
	}
	r := p.tcpRoutes(b, netip.Addr{})
	for _, c := range r.ranged {
		p.add(d, b, c)
	}
	before := len(d.chains)
	r.rest.match = Match{Prefixes: ranges}
	p.add(d, b, r.rest)
	if b.protocol != mesh.Auto || len(d.chains) == before {
		return
	}
	// HTTP in the clear is read; so the rest has to be said twice, for what is in the clear and for what is not.
	plain := d.chains[before]
	plain.Match.Transport = rawBuffer
	http := Chain{Match: plain.Match, HTTP: &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port), Route: string(b.service.Host) + ":" + number(b.port.Number),
	}}
	http.Match.HTTP = true
	d.chains = append(d.chains, http, plain)
}
