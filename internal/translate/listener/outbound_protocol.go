package listener

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// addHTTP makes the listener of an address handle HTTP, for all services planned there, and returns
// its draft. Except at the captured wildcard address, all its connections are assumed to carry HTTP.
// It does nothing and returns nil if the address has no draft (see draftAt).
func (p *planner) addHTTP(b servicePort, address string) *draft {
	d := p.draftAt(b, address)
	if d == nil {
		return nil
	}
	if d.http != nil {
		d.http.GRPCWeb = d.http.GRPCWeb || b.protocol == mesh.GRPCWeb
		if l := p.lookupOfRequests(b.service); b.service.Resolution == mesh.DynamicDNS {
			d.http.Lookup = l
			d.from = b.service.AppendObjects(d.from)
		}
		return d
	}
	d.http = &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port),
		Route:      formatNumber(d.port),
		GRPCWeb:    b.protocol == mesh.GRPCWeb,
		Lookup:     p.lookupOfRequests(b.service),
	}
	if isSocket(d.address) {
		d.http.Route = d.address
	}
	d.httpOnly = d.address != p.family.wildcard[0] || d.bind
	d.from = b.service.AppendObjects(d.from)
	return d
}

// addAuto adds a port without a declared protocol: HTTP is routed, the rest forwarded. At an
// address of its own the service has its own routes; elsewhere requests are routed by host. An own
// address that another service uses for TCP is a conflict, and nothing is added.
func (p *planner) addAuto(b servicePort, address string) {
	d := p.draftAt(b, address)
	if d == nil {
		return
	}
	own := p.isOwnAddress(d.address)
	if own && d.tcpBy.service != nil && d.tcpBy.service != b.service {
		p.addConflict(d.listenAddress, b, candidate{service: b.service}, d.tcpBy)
		return // Inspecting the first bytes could stall the protocol of the other service.
	}
	if d.http == nil {
		p.addHTTP(b, address)
		if own {
			d.http.Route = string(b.service.Host) + ":" + formatNumber(b.port.Number)
		}
	}
	p.addTCPTo(d, b)
}

// isOwnAddress reports whether an address belongs to the service alone: it is that of the service,
// and not the wildcard.
func (p *planner) isOwnAddress(address string) bool {
	return p.at.address == "" && address != p.family.wildcard[0]
}

func (p *planner) addTCP(b servicePort, address string) {
	if d := p.draftAt(b, address); d != nil {
		p.addTCPTo(d, b)
	}
}

// addTCPTo makes the service the owner of the connections that are neither HTTP nor match a chain.
func (p *planner) addTCPTo(d *draft, b servicePort) {
	r := p.tcpRoutes(b, p.ownIP(d))
	for _, c := range r.ranged {
		p.addChain(d, b, c)
	}
	p.setOwner(d, b, r.rest)
}

// ownIP returns the address of a listener if it belongs to the service alone: routes by destination
// are then decided during planning.
func (p *planner) ownIP(d *draft) netip.Addr {
	if !p.isOwnAddress(d.address) {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(d.address)
	return a
}

// setOwner makes the service the owner of the default chain, unless it has one already, which may
// be a conflict.
func (p *planner) setOwner(d *draft, b servicePort, c routed) {
	by := candidate{b.service, c.rule}
	switch {
	case d.tcp == nil:
		d.tcp, d.tcpBy, d.tls = c.tcp, by, b.protocol.IsTLS()
		d.from = append(b.service.AppendObjects(d.from), c.from...)
	case by.conflictsWith(d.tcpBy):
		p.addConflict(d.listenAddress, b, by, d.tcpBy)
	}
}

// addChain adds a chain for the free part of its match. The rest may be a conflict.
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
	d.from = append(b.service.AppendObjects(d.from), c.from...)
}

// addRanges adds destination ranges of the wildcard address. Envoy matches the range before the
// protocol, so the chains of a range must handle all of its connections. Without a declared
// protocol plaintext HTTP gets a chain too.
func (p *planner) addRanges(b servicePort, ranges []string) {
	d := p.draftAt(b, p.family.wildcard[0])
	if d == nil {
		return
	}
	slices.Sort(ranges)
	if b.protocol.IsTLS() {
		p.addTLSRanges(d, b, ranges)
		return
	}
	r := p.tcpRoutes(b, netip.Addr{})
	for _, c := range r.ranged {
		p.addChain(d, b, c)
	}
	before := len(d.chains)
	r.rest.match = Match{Prefixes: ranges}
	p.addChain(d, b, r.rest)
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
