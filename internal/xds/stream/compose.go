package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// draft is a response that is being composed.
type draft struct {
	parts   []*Payload
	removed []string
	before  uint64 // subscription.reached before this response
	// still reports whether a resource must not be sent to the client now. If nil, no resource must
	// wait.
	still func(name string, is *resource.Resource) bool
	// fresh are names of clusters that the client does not have yet. returned are names of clusters
	// that lingered until now.
	fresh, returned []string
}

func (d *draft) empty() bool { return len(d.parts) == 0 && len(d.removed) == 0 }

func (d *draft) add(p *Payload) {
	if len(p.resources) > 0 {
		d.parts = append(d.parts, p)
	}
}

// compose updates a subscription to the newest World and returns the response for it, or nil if
// nothing must be sent. Both modes find the differences in the same way; SotW then converts them
// with stateOfTheWorld.
func (m *Machine) compose(s *subscription) *draft {
	shelves := m.world.shelves[s.at]
	if s.upToDate(m.round) || len(shelves) == 0 {
		return nil
	}
	sets := m.world.sets[s.at]
	if s.base != nil && !s.asked() && !s.behind() && slices.Equal(s.base, sets) {
		s.base, s.reached = sets, m.round
		return nil
	}
	d := &draft{before: s.reached, still: m.stilled(s)}
	if m.unready(s, d) {
		return nil
	}
	if s.everything {
		m.all(s, d)
	} else if s.base != nil {
		m.changes(s, d)
	}
	m.freed(s, d)
	m.linger(s, d)
	m.debts(s, d)
	m.follow(s, d)
	m.arrive(s, d)

	s.base = sets
	s.adopt(m.world.asked(s.at))
	if !s.behind() {
		s.reached = m.round
	}

	due := s.due && len(s.owed) == 0
	if due || !d.empty() {
		s.due = false
	}
	if m.mode == SotW {
		return m.stateOfTheWorld(s, d, due)
	}
	if d.empty() && (!due || s.Silent) {
		return nil
	}
	return d
}

// all adds all resources that a wildcard covers, except the resources whose current version the
// client reported as held. Resources that must wait are frozen instead.
func (m *Machine) all(s *subscription, d *draft) {
	if s.base != nil {
		m.removals(s, d)
		m.additions(s, d)
	}
	found, shelves := 0, m.world.shelves[s.at]
	if s.held.are(m.world.sets[s.at]) {
		found, shelves = s.held.Len(), nil // the client has the current version of everything
	}
	for _, shelf := range shelves {
		if s.held.Len() == 0 && d.still == nil && len(s.frozen) == 0 {
			d.add(shelf.full)
			continue
		}
		var list []*resource.Resource
		for _, r := range shelf.set.List() {
			version, holds := s.held.get(r.Name)
			if holds {
				found++
			} else if s.role == clusterRole && s.resumed && s.base == nil {
				d.fresh = append(d.fresh, r.Name)
			}
			switch {
			case holds && version == r.Version:
			case d.still != nil && d.still(r.Name, r):
				s.freeze(s.asHeld(r.Name))
			default:
				delete(s.frozen, r.Name)
				list = append(list, r)
			}
		}
		d.add(shelf.of(list))
	}
	if found < s.held.Len() && s.Removable {
		for name := range s.held.All() {
			if m.world.get(s.at, name) == nil {
				d.removed = append(d.removed, name)
			}
		}
		slices.Sort(d.removed)
	}
	s.everything, s.held = false, nil
	s.owed = slices.DeleteFunc(slices.Clone(s.owed), func(n string) bool { return m.world.get(s.at, n) != nil })
}

// changes adds the differences from the sets that the client was last updated to.
func (m *Machine) changes(s *subscription, d *draft) {
	for i, shelf := range m.world.shelves[s.at] {
		if st := shelf.since(s.baseOf(i)); st != nil {
			d.add(s.share(shelf, st.updated, d))
		}
	}
	m.removals(s, d)
	m.additions(s, d)
}

// removals adds the resources that were deleted since those sets. A name that was not looked up
// this time is not deleted: it becomes due, in case it changed.
func (m *Machine) removals(s *subscription, d *draft) {
	for i, shelf := range m.world.shelves[s.at] {
		st := shelf.since(s.baseOf(i))
		if st == nil {
			continue
		}
		for _, n := range st.removed {
			switch {
			case !s.covers(n) || m.world.get(s.at, n) != nil:
			case !m.world.knows(s.at, n): // look it up, and send it if it changed
				if !has(s.owed, n) {
					s.hold(s.was(n))
				}
			case s.Removable:
				d.removed = append(d.removed, n)
			}
		}
	}
	slices.Sort(d.removed)
}

// additions records in d.fresh the clusters that are not in those sets. It applies only to wildcard
// subscriptions.
func (m *Machine) additions(s *subscription, d *draft) {
	if s.role != clusterRole || !s.wildcard {
		return
	}
	for i, shelf := range m.world.shelves[s.at] {
		if st := shelf.since(s.baseOf(i)); st != nil {
			for _, n := range st.added {
				if s.was(n) == nil {
					d.fresh = append(d.fresh, n)
				}
			}
		}
	}
}

func (s *subscription) baseOf(shelf int) *resource.Set {
	if shelf < len(s.base) {
		return s.base[shelf]
	}
	return nil
}

// share returns the part of a Shelf's Payload that must be sent to the client, or p itself if that
// is all of it.
func (s *subscription) share(shelf *Shelf, p *Payload, d *draft) *Payload {
	var part []*resource.Resource
	whole := true
	for i, r := range p.resources {
		switch takes := s.takes(r, d); {
		case takes && !whole:
			part = append(part, r)
		case !takes && whole:
			whole = false
			part = append(part, p.resources[:i]...)
		}
	}
	if whole {
		return p
	}
	return shelf.of(part)
}

// takes reports whether a changed resource is sent to the client now. It returns false for an owed
// resource, which debts adds. It freezes a resource that must wait.
func (s *subscription) takes(r *resource.Resource, d *draft) bool {
	if has(s.owed, r.Name) {
		return false
	}
	// Freeze endpoints even if they are not subscribed to: the client may request them later, while
	// their cluster lingers.
	covers := s.covers(r.Name)
	if (covers || s.role == endpointRole) && d.still != nil && d.still(r.Name, r) {
		s.freeze(s.asHeld(r.Name))
		return false
	}
	if !covers {
		return false
	}
	if was := s.frozen[r.Name]; was != nil {
		delete(s.frozen, r.Name)
		return was.Version != r.Version
	}
	return true
}
