package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Make before break: what must come with a change, and what must wait until the change has arrived.

// lingering is resources that are gone from the World, and that the client is to keep until nothing that it was sent can
// refer to them.
type lingering struct {
	// gone holds them by name, as they were last sent; nil for one that only the client told of (Request.Held).
	gone map[string]*resource.Resource
	from uint64 // the round in which the youngest went
	age  int    // of the youngest, in Overdue events (EDS: of a client that starts up, see startUp)
	// draining has for each resource in gone that connections of a drained listener may use
	// (Type.Drains), how many Overdue events are left before it is removed.
	draining map[string]int
}

const (
	// unasked is for how many Overdue events a client that came with state is given to ask for the types that refer to
	// clusters, before clusters are taken from it.
	unasked = 2
	// inUse is for how many Overdue events a client that names its clusters may go on to, before those that are gone are taken from it.
	// gRPC acknowledges routes before it uses them; calls that are on their way still want the clusters of the older ones. When those are
	// over it stops asking.
	inUse = 2
)

// linger holds back the removals of a draft. A resource that comes back in time was never gone.
func (m *Machine) linger(s *subscription, d *draft) {
	if !s.lingers() {
		return
	}
	for name, old := range s.gone {
		r := m.world.get(s.at, name)
		if r == nil {
			continue
		}
		delete(s.gone, name)
		delete(s.draining, name)
		d.returned = append(d.returned, name)
		if old != nil && old.Version == r.Version {
			d.leaveOut(name)
			m.thaw([]string{m.endpointsOf(name, old)})
		}
	}
	for _, name := range d.removed {
		if s.gone == nil {
			s.gone = map[string]*resource.Resource{}
		}
		s.gone[name] = s.was(name)
		if m.drain > 0 && s.Drains != nil && s.Drains(name) {
			if s.draining == nil {
				s.draining = map[string]int{}
			}
			s.draining[name] = m.drain
		}
		s.from, s.age = m.round, 0
	}
	d.removed = nil
}

// leaveOut takes a resource out of the draft.
func (d *draft) leaveOut(name string) {
	for i, p := range d.parts {
		at := preceding(p.resources, name)
		if at == len(p.resources) || p.resources[at].Name != name {
			continue
		}
		d.parts[i] = NewPayload(slices.Concat(p.resources[:at], p.resources[at+1:]))
	}
	d.parts = slices.DeleteFunc(d.parts, func(p *Payload) bool { return len(p.resources) == 0 })
}

// releasable reports whether the client is to be told now of a resource in gone that it is removed:
// nothing refers to it any more, and no connection that is drained may use it.
func (m *Machine) releasable(s *subscription) bool {
	if len(s.gone) <= len(s.draining) {
		return false
	}
	if !s.wildcard && s.age < inUse && slices.ContainsFunc(s.names, func(name string) bool { _, gone := s.gone[name]; return gone }) {
		return false
	}
	return m.unreferenced(s)
}

// unreferenced reports whether nothing that the client was sent, and may still use, refers to the
// resources in gone. It is so when every type that may refer to them was brought up to the round in
// which the youngest went, or a later one, and acknowledged.
func (m *Machine) unreferenced(s *subscription) bool {
	for i, t := range m.subs {
		if !m.types.list[i].refers() || len(m.world.shelves[i]) == 0 {
			continue
		}
		if t == nil {
			if s.stateful && s.age < unasked {
				return false
			}
			continue
		}
		if t.settled() < s.from || len(t.refused) > 0 {
			return false
		}
	}
	return true
}

// release returns the removal of all resources in gone but those that are still draining. It is nil
// if the client does not subscribe to any of them.
func (m *Machine) release(s *subscription) *draft {
	d := &draft{before: s.reached}
	for name := range s.gone {
		if s.draining[name] > 0 {
			continue
		}
		if s.covers(name) {
			d.removed = append(d.removed, name)
		}
		delete(s.gone, name)
	}
	slices.Sort(d.removed)
	if len(d.removed) > 0 && m.mode == SotW {
		return m.stateOfTheWorld(s, d, true)
	}
	if len(d.removed) == 0 {
		return nil
	}
	return d
}

// follow makes the endpoints of the clusters in a draft due. A new or changed cluster warms until it is given its
// endpoints, and a client that knows them already does not ask for them again.
func (m *Machine) follow(s *subscription, d *draft) {
	if s.role != clusterRole || len(m.world.shelves[m.types.endpoints]) == 0 || len(d.parts) == 0 {
		return
	}
	asked, started := m.endpoints() != nil, m.listeners() != nil // Envoy asks for LDS when its first clusters are warm
	if !asked && (!started && !s.resumed || !s.wildcard) {
		return // its first EDS request will come next, and name them all
	}
	var names []string
	for _, p := range d.parts {
		names = union(names, p.followers(m.world.endpointsOf))
	}
	if len(names) == 0 {
		return
	}
	if !asked && !started { // its first EDS request comes next, and may say that it holds them
		m.followers = union(m.followers, names)
		return
	}
	m.subscription(m.types.endpoints).oweFollowing(names)
}

// join makes due what follows clusters that were sent before it was known whether the client asks for EDS.
func (m *Machine) join() {
	if len(m.followers) > 0 {
		m.subscription(m.types.endpoints).oweFollowing(m.followers)
		m.followers = nil
	}
}

// age lets time pass. For answers it stands still while a response is being written: the client cannot have answered it,
// and is sent nothing meanwhile.
func (m *Machine) age() {
	for _, s := range m.subs {
		if s == nil {
			continue
		}
		for i := range s.flights {
			if !m.writing {
				s.flights[i].age = min(s.flights[i].age+1, patience)
			}
		}
		if len(s.gone) > 0 {
			s.age = min(s.age+1, max(unasked, inUse))
		}
		if m.world != nil && len(s.draining) > 0 && m.unreferenced(s) { // the client drains since it acknowledged
			for name, left := range s.draining {
				if s.draining[name] = left - 1; left <= 1 {
					delete(s.draining, name)
				}
			}
		}
	}
	if !m.writing {
		m.mature()
	}
	m.startUp()
	m.melt()
	for _, s := range m.subs {
		if s != nil {
			s.tidy()
		}
	}
}

// startUp helps a client that lost its stream while it was starting up: it came with endpoints, and does not go on to
// listeners, so one of its clusters still waits for the endpoints that it was being sent.
func (m *Machine) startUp() {
	e := m.endpoints()
	if e == nil || !e.resumed || m.clusters() == nil || m.listeners() != nil || e.age >= unasked {
		return
	}
	if m.writing || len(e.flights) > 0 {
		return // it is only slow
	}
	if e.age++; e.age == unasked {
		e.distrust()
	}
}
