package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/resource"
)

// draft is a response in the making.
type draft struct {
	parts   []*Payload
	removed []string
	before  uint64 // what the subscription had reached before
}

func (d *draft) empty() bool { return len(d.parts) == 0 && len(d.removed) == 0 }

func (d *draft) add(p *Payload) {
	if len(p.resources) > 0 {
		d.parts = append(d.parts, p)
	}
}

// compose brings a subscription up to the newest World: it gives what has to be sent for that, nil for nothing.
// The difference is found in the same way for both modes; SotW then turns it into what it can say.
func (m *Machine) compose(s *subscription) *draft {
	shelves := m.world.shelves[s.at]
	if s.upToDate(m.round) || len(shelves) == 0 {
		return nil
	}
	d := &draft{before: s.reached}
	if s.everything {
		m.all(s, d)
	} else if s.base != nil {
		m.changes(s, d)
	}
	m.linger(s, d)
	m.debts(s, d)
	m.follow(s, d)

	if s.base == nil || len(s.base) != len(shelves) {
		s.base = make([]*resource.Set, len(shelves))
	}
	for i, shelf := range shelves {
		s.base[i] = shelf.set
	}
	if len(s.owed) == 0 {
		s.reached = m.round
	}

	due := s.due && len(s.owed) == 0
	if due || !d.empty() {
		s.due = false
	}
	if m.mode == SotW {
		return m.stateOfTheWorld(s, d, due)
	}
	if d.empty() && !due {
		return nil
	}
	return d
}

// all adds everything that a wildcard stands for, but for what the client said it holds.
func (m *Machine) all(s *subscription, d *draft) {
	if s.base != nil {
		m.removals(s, d)
	}
	for _, shelf := range m.world.shelves[s.at] {
		if len(s.held) == 0 {
			d.add(shelf.full)
			continue
		}
		var differ []*resource.Resource
		for _, r := range shelf.set.List() {
			if s.held[r.Name] != r.Version {
				differ = append(differ, r)
			}
		}
		d.add(NewPayload(differ))
	}
	for name := range s.held {
		if m.world.get(s.at, name) == nil {
			d.removed = append(d.removed, name)
		}
	}
	slices.Sort(d.removed)
	s.everything, s.held = false, nil
	s.owed = slices.DeleteFunc(slices.Clone(s.owed), func(n string) bool { return m.world.get(s.at, n) != nil })
}

// changes adds what differs from the sets that the client was last brought up to.
func (m *Machine) changes(s *subscription, d *draft) {
	still := m.stilled(s)
	for i, shelf := range m.world.shelves[s.at] {
		if st := shelf.since(s.baseOf(i)); st != nil {
			d.add(s.share(st.updated, still))
		}
	}
	m.removals(s, d)
}

// removals adds what is gone from those sets. A name that was not looked up this time is not gone.
func (m *Machine) removals(s *subscription, d *draft) {
	for i, shelf := range m.world.shelves[s.at] {
		st := shelf.since(s.baseOf(i))
		if st == nil {
			continue
		}
		for _, n := range st.removed {
			switch {
			case !s.covers(n) || m.world.get(s.at, n) != nil:
			case !m.world.knows(s.at, n): // to be looked up, and sent if it comes out different
				if !has(s.owed, n) {
					s.hold(s.was(n))
				}
			case s.removable:
				d.removed = append(d.removed, n)
			}
		}
	}
	slices.Sort(d.removed)
}

func (s *subscription) baseOf(shelf int) *resource.Set {
	if shelf < len(s.base) {
		return s.base[shelf]
	}
	return nil
}

// share gives the part of a Payload that the client is to have; the shared Payload itself if that is all of it.
// What is owed is left to debts.
func (s *subscription) share(p *Payload, still []string) *Payload {
	wanted := func(r *resource.Resource) bool {
		return s.covers(r.Name) && !has(still, r.Name) && !has(s.owed, r.Name)
	}
	if !slices.ContainsFunc(p.resources, func(r *resource.Resource) bool { return !wanted(r) }) {
		return p
	}
	var part []*resource.Resource
	for _, r := range p.resources {
		if wanted(r) {
			part = append(part, r)
		} else if has(still, r.Name) && !has(s.owed, r.Name) {
			s.freeze(s.was(r.Name))
		}
	}
	return NewPayload(part)
}

// debts adds what is owed. Names that the World does not know yet stay owed.
func (m *Machine) debts(s *subscription, d *draft) {
	if len(s.owed) == 0 {
		return
	}
	owed := m.differing(s)
	owed = m.unchanging(s, owed, d)
	found := 0
	for _, shelf := range m.world.shelves[s.at] {
		p := shelf.pick(owed)
		found += len(p.resources)
		d.add(p)
	}
	var later []string
	if found < len(owed) {
		for _, n := range owed {
			switch {
			case m.world.get(s.at, n) != nil:
			case !m.world.knows(s.at, n):
				later = append(later, n)
			case s.removable && !has(d.removed, n):
				d.removed = union(d.removed, []string{n})
				delete(s.gone, n)
			}
		}
	}
	s.owed = later
	if s.following = without(s.following, without(s.following, later)); later == nil {
		s.held = nil
	}
}

// differing gives the owed names without those that the client holds as they are, or that must stay for now as it holds
// them.
func (m *Machine) differing(s *subscription) []string {
	if len(s.held) == 0 {
		return s.owed
	}
	still := m.stilled(s)
	var list, same []string
	for _, n := range s.owed {
		version, holds := s.held[n]
		r := m.world.get(s.at, n)
		switch {
		case !holds || r == nil:
			list = append(list, n)
		case r.Version == version:
			same = append(same, n)
		case has(still, n) && !has(s.following, n):
			s.freeze(&resource.Resource{Name: n, Version: version})
		default:
			list = append(list, n)
		}
	}
	if s.at == eds && s.resumed {
		s.trusted = union(s.trusted, same)
	}
	return list
}

// unchanging answers the owed names that must not change now as they were answered before, and gives the others.
func (m *Machine) unchanging(s *subscription, owed []string, d *draft) []string {
	still := m.stilled(s)
	if len(still) == 0 {
		return owed
	}
	var answered []string
	var before []*resource.Resource
	for _, n := range owed {
		if !has(still, n) {
			continue
		}
		was, is := s.was(n), m.world.get(s.at, n)
		if was == nil || was.TypeURL == "" || is == nil || is.Version == was.Version {
			continue
		}
		answered, before = append(answered, n), append(before, was)
		s.freeze(was)
	}
	d.add(NewPayload(before))
	return without(owed, answered)
}

// hold makes a resource due unless it comes out as the client has it.
func (s *subscription) hold(r *resource.Resource) {
	if s.held == nil {
		s.held = map[string]string{}
	}
	s.held[r.Name] = r.Version
	s.owe([]string{r.Name})
}
