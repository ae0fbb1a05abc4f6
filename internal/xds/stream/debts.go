package stream

import "github.com/meshpilot/meshpilot/internal/model/resource"

// debts adds the owed resources to the draft. Names that the World has not looked up yet stay owed.
// Names that do not exist are added to the removals if the type is removable.
func (m *Machine) debts(s *subscription, d *draft) {
	if len(s.owed) == 0 {
		return
	}
	owed := m.differing(s, d)
	owed = m.unchanging(s, owed, d)
	found := 0
	for _, shelf := range m.world.shelves[s.at] {
		p := shelf.pick(owed)
		found += len(p.resources)
		d.add(p)
	}
	var later []string
	if found < len(owed) {
		m.world.each(s.at, owed, func(n string, r *resource.Resource) {
			switch {
			case r != nil:
			case !m.world.knows(s.at, n):
				later = append(later, n)
			case s.Removable && !has(d.removed, n):
				d.removed = union(d.removed, []string{n})
				delete(s.gone, n)
				delete(s.draining, n)
			}
		})
	}
	s.owed = later
	if s.following = without(s.following, without(s.following, later)); later == nil {
		s.held = nil
	}
}

// differing returns the owed names that must be sent. It omits names that the client holds in their
// current version, and names whose changes must wait, which it freezes.
func (m *Machine) differing(s *subscription, d *draft) []string {
	if s.held.Len() == 0 {
		return s.owed
	}
	if s.held.are(m.world.sets[s.at]) && same(s.owed, m.world.asked(s.at)) && len(s.owed) == s.held.Len() {
		if s.role == endpointRole && s.resumed {
			s.trusted = union(s.trusted, s.owed)
		}
		return nil // the client has the current version of everything
	}
	var list, kept []string
	m.world.each(s.at, s.owed, func(n string, r *resource.Resource) {
		version, holds := s.held.get(n)
		switch {
		case !holds || r == nil:
			list = append(list, n)
		case r.Version == version:
		case d.still != nil && d.still(n, r) && !has(s.following, n):
			s.freeze(&resource.Resource{Name: n, Version: version})
			kept = append(kept, n)
		default:
			list = append(list, n)
		}
	})
	if s.role == endpointRole && s.resumed {
		s.trusted = union(s.trusted, without(without(s.owed, list), kept))
	}
	return list
}

// unchanging returns the owed names that may be sent in their current version. Names that must not
// change now are answered with the client's previous version instead. A resource that waits for its
// clusters, and whose previous version is not known, is not answered yet.
func (m *Machine) unchanging(s *subscription, owed []string, d *draft) []string {
	if d.still == nil && len(s.frozen) == 0 {
		return owed
	}
	var settled []string
	var before []*resource.Resource
	m.world.each(s.at, owed, func(n string, is *resource.Resource) {
		was := s.was(n)
		switch {
		case is == nil || d.still == nil || !d.still(n, is) || was != nil && was.Version == is.Version:
			if s.refers() {
				delete(s.frozen, n) // sent now
			}
			return
		case was != nil && !hollow(was):
			before = append(before, was)
		case !s.refers():
			return
		}
		settled = append(settled, n)
		s.freeze(s.asHeld(n))
	})
	d.add(NewPayload(before))
	return without(owed, settled)
}

// hold makes a resource due, unless its newest version turns out to be equal to r.
func (s *subscription) hold(r *resource.Resource) {
	s.held = s.held.with(r.Name, r.Version)
	s.owe([]string{r.Name})
}
