package listener

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// chainPlanner plans which connections the candidates of an address receive, and their
// destinations. Like the rules of its router, at and aliases belong to the current egress listener.
type chainPlanner struct {
	router
	at binding
	// aliases are the names of alias services by the host that they lead to.
	aliases map[mesh.Hostname][]mesh.Hostname
}

// addCandidate adds a service port to the draft of an address, by its protocol, for destinations in
// ranges if there are any, which must be sorted. UDP and other protocols without a case are TCP. A
// protocol that is inspected, at an own address that another service uses for TCP, is a conflict,
// and so is one that the wildcard address excludes (draft.excludes). Nothing is added then.
func (p *chainPlanner) addCandidate(d *draft, b servicePort, ranges []string) {
	if d.address == p.family.wildcard[0] && d.excludes(b.protocol) {
		d.conflicts = append(d.conflicts, newConflict(d.name, b, config.Key{}, candidate{service: d.first}))
		return
	}
	if d.first == nil {
		d.first, d.protocol = b.service, b.protocol
	}
	if b.protocol.IsHTTP() {
		p.addHTTP(d, b)
		return
	}
	var ip netip.Addr // the address of the listener, if it is one of the service's own
	if p.at.address == "" && d.address != p.family.wildcard[0] {
		ip, _ = netip.ParseAddr(d.address)
	}
	inspected := b.protocol == mesh.Auto || b.protocol.IsTLS() && !d.tls
	switch {
	case inspected && ip.IsValid() && d.hasOtherOwner(b.service):
		// Inspecting the first bytes could stall the protocol of the other service.
		d.conflicts = append(d.conflicts, newConflict(d.name, b, config.Key{}, d.tcpBy))
	case b.protocol.IsTLS():
		p.addTLS(d, b, ip, ranges)
	case len(ranges) > 0:
		p.addRanges(d, b, ranges)
	default:
		p.addTCP(d, b, ip)
	}
}

// addHTTP makes a listener handle HTTP, for all services planned there. Except at the captured
// wildcard address, all its connections are then assumed to carry HTTP (d.httpOnly). If it already
// handles HTTP, only GRPCWeb of b is added and, if the service is dynamic, its Lookup and its
// origins.
func (p *chainPlanner) addHTTP(d *draft, b servicePort) {
	first, dynamic := d.http == nil, b.service.Resolution == mesh.DynamicDNS
	if first {
		d.http = p.newHTTP(d)
		d.httpOnly = d.address != p.family.wildcard[0] || d.bind
	}
	d.http.GRPCWeb = d.http.GRPCWeb || b.protocol == mesh.GRPCWeb
	if dynamic {
		d.http.Lookup = p.family.lookup
	}
	if first || dynamic {
		d.addOrigins(b.service)
	}
}

// newHTTP returns the connection manager of a listener, with the routes of its port or, for a Unix
// socket, of its address. Its Lookup is set if the outbound policy resolves unknown hosts by DNS. d
// is not changed.
func (p *chainPlanner) newHTTP(d *draft) *HTTP {
	h := &HTTP{StatPrefix: statPrefix(mesh.Outbound, d.address, d.port), Route: formatNumber(d.port)}
	if config.IsSocket(d.address) {
		h.Route = d.address
	}
	if p.in.byName {
		h.Lookup = p.family.lookup
	}
	return h
}

// ownRoute returns the name of the RDS resource that has only the routes of one service port.
func ownRoute(b servicePort) string {
	return string(b.service.Host) + ":" + formatNumber(b.port.Number)
}

// addTCP makes the service the owner of the connections that match no chain, and adds the chains of
// its routes by destination. Of a port without a declared protocol, HTTP is routed: at ip, an
// address of its own, by its own routes; elsewhere by host.
func (p *chainPlanner) addTCP(d *draft, b servicePort, ip netip.Addr) {
	if b.protocol == mesh.Auto {
		first := d.http == nil
		p.addHTTP(d, b)
		if first && ip.IsValid() {
			d.http.Route = ownRoute(b)
		}
	}
	d.setOwner(b, p.addTCPChains(d, b, ip))
}

// addTCPChains adds the chains of a service's routes by destination range, and returns the
// destination of all other connections. With a valid ip, the listener's own address, routes by
// destination are decided during planning.
func (p *chainPlanner) addTCPChains(d *draft, b servicePort, ip netip.Addr) routed {
	r := p.tcpRoutes(b, ip)
	for _, c := range r.ranged {
		d.addChain(b, c)
	}
	return r.rest
}

// addTLS adds connections with TLS of the application, to ranges if there are any. If
// VirtualServices route them, only these routes are added; one without server names and ranges owns
// all connections. Otherwise the service becomes the owner, or is matched by its server names if it
// is dynamic or shares the address. Names that Envoy cannot match are Problems of d. ip is the
// listener's address if it is the service's own.
func (p *chainPlanner) addTLS(d *draft, b servicePort, ip netip.Addr, ranges []string) {
	routes, faults := p.tlsRoutes(b, ip, ranges)
	d.problems = append(d.problems, faults...)
	for _, c := range routes {
		if len(c.match.SNI)+len(c.match.Prefixes) == 0 {
			d.setOwner(b, c)
			continue
		}
		d.addChain(b, c)
	}
	if len(routes) > 0 {
		return
	}
	shared := !ip.IsValid() && p.at.address == "" || d.hasOtherOwner(b.service)
	if to := p.toService(b); shared || b.service.Resolution == mesh.DynamicDNS {
		p.addServiceChain(d, b, to, ranges)
	} else {
		d.setOwner(b, to)
	}
}

// addServiceChain adds a chain with destination c that matches a service, and its aliases, by their
// server names, and ranges if there are any. Names that Envoy cannot match are Problems; without
// any other name it adds no chain.
func (p *chainPlanner) addServiceChain(d *draft, b servicePort, c routed, ranges []string) {
	names := []string{string(b.service.Host)}
	for _, alias := range p.aliases[b.service.Host] {
		names = append(names, string(alias))
	}
	sni, faults := serverNames(names)
	for _, f := range faults {
		d.problems = append(d.problems, warning(
			b.service.From,
			"spec.hosts",
			f+": TLS to this host cannot be distinguished from other TLS on port "+formatNumber(d.port),
		))
	}
	if len(sni) > 0 {
		c.match = Match{SNI: sni, Prefixes: ranges}
		d.addChain(b, c)
	}
}

// addRanges adds chains for destination ranges to the listener d of the wildcard address, if any of
// them is free (addChain). Envoy matches the range before the protocol, so the chains of a range
// must handle all of its connections. Without a declared protocol, plaintext HTTP gets a chain too,
// with routes of the service's own.
func (p *chainPlanner) addRanges(d *draft, b servicePort, ranges []string) {
	rest := p.addTCPChains(d, b, netip.Addr{})
	before := len(d.chains)
	rest.match = Match{Prefixes: ranges}
	d.addChain(b, rest)
	if b.protocol != mesh.Auto || len(d.chains) == before {
		return
	}
	// Plaintext HTTP has its own chain, so the other chain is repeated for plaintext and for any
	// transport.
	plain := d.chains[before]
	plain.Match.Transport = rawBuffer
	http := Chain{Match: plain.Match, HTTP: &HTTP{
		StatPrefix: statPrefix(mesh.Outbound, d.address, d.port),
		Route:      ownRoute(b),
	}}
	http.Match.HTTP = true
	d.chains = append(d.chains, http, plain)
}
