package stream

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// requestSotW takes in a DiscoveryRequest, which says all that the client wants of the type. One with the nonce of an
// older response is stale: it is not answered, for the client's answer to the newer one says the same again.
func (m *Machine) requestSotW(s *subscription, r Request, first bool) {
	again := false // a first request sent again
	switch {
	case first:
		s.stateful = r.Version != ""
		if r.Rejected { // of a stream before this one
			m.refuse(s, r, nil)
		}
	case s.sent.number != 0 && r.Nonce != "" && !s.sent.is(r.Nonce):
		m.answeredLate(s, r)
		if !s.wildcard { // what it does not want any more it has dropped, and will need again if it asks again
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

// stateOfTheWorld turns what has changed into a SotW response. Of the wildcard types it must hold everything, of the
// others what changed will do ("Grouping Resources into Responses"); that something is gone can be said only by the
// former.
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

// asItIs puts what the client has in the place of resources that are held back.
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

// stillThere gives the lingering resources, sorted.
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
