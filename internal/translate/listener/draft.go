package listener

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// draft is an outbound listener under construction. It depends only on the candidates of its
// address, which are added one after the other, and on their order.
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

	// first is the service of the first candidate, and protocol its protocol.
	first    *mesh.Service
	protocol mesh.Protocol

	conflicts []Conflict
	problems  []config.Problem
}

// excludes reports whether the draft has a candidate of another protocol than p, and one of the two
// is MySQL or Mongo. Servers of these may send first, which an inspector of the others' bytes would
// wait for.
func (d *draft) excludes(p mesh.Protocol) bool {
	alone := func(p mesh.Protocol) bool { return p == mesh.MySQL || p == mesh.Mongo }
	return d.first != nil && d.protocol != p && (alone(d.protocol) || alone(p))
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
// destinations. Candidates of different services conflict unless the same VirtualService routes
// both. Candidates of one service conflict only if different VirtualServices route them: a service
// keeps the connections that its own VirtualService does not match.
func (c candidate) conflictsWith(o candidate) bool {
	none := config.Key{}
	if c.service == o.service {
		return c.rule != none && o.rule != none && c.rule != o.rule
	}
	return c.rule == none || c.rule != o.rule
}

// hasOtherOwner reports whether another service than svc receives the connections that match no
// chain.
func (d *draft) hasOtherOwner(svc *mesh.Service) bool {
	return d.tcpBy.service != nil && d.tcpBy.service != svc
}

// setOwner makes the service of b the owner of the connections that match no chain, with
// destination c, and adds their origins. If the draft already has an owner, that stays, and nothing
// else changes. A conflict is then recorded in d.conflicts unless both want the same destination
// (conflictsWith).
func (d *draft) setOwner(b servicePort, c routed) {
	by := candidate{b.service, c.rule}
	switch {
	case d.tcp == nil:
		d.tcp, d.tcpBy, d.tls = c.tcp, by, b.protocol.IsTLS()
		d.addOrigins(b.service, c.from...)
	case by.conflictsWith(d.tcpBy):
		d.conflicts = append(d.conflicts, newConflict(d.name, b, by.rule, d.tcpBy))
	}
}

// addChain adds a chain for the part of the match c.match that no other chain has, and claims that
// part in d.claims. The rest is recorded as a conflict, if its owner wants another destination
// (conflictsWith). If nothing is left, it adds no chain.
func (d *draft) addChain(b servicePort, c routed) {
	by := candidate{b.service, c.rule}
	got, ok, lost := d.claimMatches(c.match, by)
	if lost != nil && by.conflictsWith(*lost) {
		d.conflicts = append(d.conflicts, newConflict(d.name, b, by.rule, *lost))
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

// claimMatches assigns the free ranges or names of a match to by in d.claims, and returns the match
// with only these, sorted and without duplicates. A server name is free only if it is free in all
// ranges of the match, which are then unchanged. ok is false, and got zero, if none is free or m
// has neither names nor ranges. lost is the owner of the first part that is not free, or nil.
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
