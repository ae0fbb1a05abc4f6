package stream

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// requestSotW processes a DiscoveryRequest, which lists all names of the type that the client
// wants. A request with the nonce of an older response is stale and not answered. The client
// repeats its subscription in its answer to the newest response.
func (m *Machine) requestSotW(s *subscription, r Request, first bool) {
	again := false // a first request sent again
	switch {
	case first:
		s.stateful = r.Version != ""
		if r.Rejected { // about a response of an earlier stream
			m.refuse(s, r, nil)
		}
	case s.sent.number != 0 && r.Nonce != "" && !s.sent.is(r.Nonce):
		m.answeredLate(s, r)
		if !s.wildcard { // the client has already deleted the names that it omits
			s.drop(without(s.names, sorted(r.Names)))
		}
		return
	case s.sent.is(r.Nonce):
		m.answeredSotW(s, r)
	default:
		again = r.Nonce == "" && r.Version == ""
	}

	names, shared := r.Names, any(nil)
	if same(names, s.names) { // as in every ACK
		names = s.names
	} else {
		names, shared = m.asked(names)
	}
	wildcard := s.Wildcard && (has(names, wildcardName) || len(names) == 0 && !s.named)
	s.named = s.named || len(names) > 0
	if has(names, wildcardName) {
		names, shared = without(names, []string{wildcardName}), nil
	}
	added, dropped := without(names, s.names), without(s.names, names)
	widened := wildcard && !s.wildcard
	again = again && len(added) == 0 && len(dropped) == 0 && !widened
	s.wildcard = wildcard
	s.everything = s.everything && wildcard
	s.drop(dropped)
	if len(added) > 0 || len(dropped) > 0 {
		m.keep(s, names, shared)
	}

	if first || again {
		s.askAll()
		return
	}
	s.lacks(added)
	s.owe(added)
	s.everything = s.everything || widened
}

// stateOfTheWorld converts a draft of changes into a SotW response, or nil if there is nothing to
// send. A response of a wildcard type contains all subscribed resources. A response of another type
// contains only the changes ("Grouping Resources into Responses") and cannot express removals.
func (m *Machine) stateOfTheWorld(s *subscription, d *draft, due bool) *draft {
	if !s.Wildcard {
		if d.removed = nil; len(d.parts) == 0 {
			return nil
		}
		return d
	}
	if d.empty() && !due {
		return nil
	}
	full := &draft{before: d.before}
	for _, shelf := range m.world.shelves[s.at] {
		if s.wildcard {
			full.add(s.asItIs(shelf.full))
		} else {
			full.add(s.asItIs(shelf.pick(s.names)))
		}
	}
	full.add(NewPayload(s.stillThere()))
	if s.Silent && full.empty() {
		return nil
	}
	return full
}

// asItIs returns p with each held-back resource replaced by the version that the client has.
// Held-back resources that the client lacks or whose contents are unknown are left out.
func (s *subscription) asItIs(p *Payload) *Payload {
	if !slices.ContainsFunc(p.resources, func(r *resource.Resource) bool { return s.frozen[r.Name] != nil }) {
		return p
	}
	var list []*resource.Resource
	for _, r := range p.resources {
		switch was := s.frozen[r.Name]; {
		case was == nil:
			list = append(list, r)
		case !hollow(was):
			list = append(list, was)
		}
	}
	return NewPayload(list)
}

// stillThere returns the lingering resources that the client subscribes to, sorted by name.
func (s *subscription) stillThere() []*resource.Resource {
	var list []*resource.Resource
	for name, r := range s.gone {
		if r != nil && s.covers(name) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
