package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Make before break: resources that must be sent together with a change, and resources that must
// wait until the client has applied it.

// lingering is the set of resources that were deleted from the ResourceSnapshot, and that the
// client keeps until nothing that it was sent can refer to them.
type lingering struct {
	// gone maps their names to the resources as they were last sent, or to nil for a resource that
	// only the client reported (Request.Held).
	gone map[string]*resource.Resource
	from uint64 // the round in which the most recent one was deleted
	age  int    // Tick events since then (EDS: see resendEndpoints)
	// draining maps each resource in gone that connections of a drained listener may use
	// (Type.Drains) to the number of Tick events that are left before its removal.
	draining map[string]int
}

const (
	// unasked is the number of Tick events within which a reconnected client should request the
	// types that refer to clusters. After that, clusters are removed from it without these
	// requests.
	unasked = 2
	// inUse is the number of Tick events for which a client that names its clusters keeps
	// deleted clusters that it still names. gRPC acknowledges routes before it uses them, and calls
	// in progress still need the clusters of the older routes. When these calls have ended, it
	// unsubscribes.
	inUse = 2
)

// startLingering moves the removals of a draft into s.gone, so that the draft has none, and starts
// their time (s.age) again. A resource that returns is taken out of s.gone, also if the draft does
// not change otherwise, and added to d.returned. If it has the same version, it is also taken out
// of the draft. It does nothing for a type whose resources do not linger.
func (m *Machine) startLingering(s *subscription, d *draft) {
	if !s.canLinger() {
		return
	}
	for name, old := range s.gone {
		r := m.resources.findResource(s.at, name)
		if r == nil || !s.coversName(name) {
			continue
		}
		delete(s.gone, name)
		delete(s.draining, name)
		d.returned = append(d.returned, name)
		if old != nil && old.Version == r.Version {
			d.removeResource(name)
			m.unfreezeEndpoints([]string{m.endpointsOf(name, old)})
		}
	}
	for _, name := range d.removed {
		if s.gone == nil {
			s.gone = map[string]*resource.Resource{}
		}
		s.gone[name] = s.previousVersion(name)
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

// removeResource deletes a resource from the draft's parts. Payloads are shared, so it replaces the
// Payload that contains it. It does nothing if no part contains the resource; an empty part is
// dropped.
func (d *draft) removeResource(name string) {
	for i, p := range d.parts {
		at := countPreceding(p.resources, name)
		if at == len(p.resources) || p.resources[at].Name != name {
			continue
		}
		d.parts[i] = NewPayload(slices.Concat(p.resources[:at], p.resources[at+1:]))
	}
	d.parts = slices.DeleteFunc(d.parts, func(p *Payload) bool { return len(p.resources) == 0 })
}

// canRelease reports whether deleted resources in gone can be removed from the client now. At least
// one must not be draining, and nothing may refer to them. A client that names its clusters, and
// still names one of them, keeps all for inUse.
func (m *Machine) canRelease(s *subscription) bool {
	if len(s.gone) <= len(s.draining) {
		return false
	}
	if !s.wildcard && s.age < inUse &&
		slices.ContainsFunc(s.names, func(name string) bool { _, gone := s.gone[name]; return gone }) {
		return false
	}
	return m.isUnreferenced(s)
}

// isUnreferenced reports whether nothing that the client may still use refers to the resources in
// gone. Every requested type that may refer to them must be acknowledged for the round in which the
// most recent one was deleted, or a later one, without rejected resources. For a type that was not
// requested, a reconnected client has unasked Tick events to request it. A type without resources
// in the ResourceSnapshot is ignored.
func (m *Machine) isUnreferenced(s *subscription) bool {
	for i, t := range m.subs {
		if !m.types.list[i].refersToClusters() || len(m.resources.lists[i].groups) == 0 {
			continue
		}
		if t == nil {
			if s.stateful && s.age < unasked {
				return false
			}
			continue
		}
		if t.ackedRound() < s.from || len(t.refused) > 0 {
			return false
		}
	}
	return true
}

// releaseLingering deletes all resources that are not draining from s.gone, and returns a response
// that removes them from the client. In SotW the response is the full state without them. It leaves
// out resources that the client does not subscribe to, and returns nil if none is left.
func (m *Machine) releaseLingering(s *subscription) *draft {
	d := &draft{before: s.reached}
	for name := range s.gone {
		if s.draining[name] > 0 {
			continue
		}
		if s.wildcard || s.coversName(name) {
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

// oweEndpoints sends the endpoints of the clusters in a draft after it (oweFollowing), if s is of
// clusters. A new or changed cluster warms until it receives its endpoints, and a client that has
// them already does not request them again. It does nothing if the client's first EDS request will
// follow and name them all. If a resumed client has requested neither EDS nor LDS, it stores the
// names in m.followers instead.
func (m *Machine) oweEndpoints(s *subscription, d *draft) {
	if s.role != clusterRole || len(m.resources.lists[m.types.endpoints].groups) == 0 || len(d.parts) == 0 {
		return
	}
	// Envoy requests LDS when its first clusters are warm.
	asked, started := m.endpoints() != nil, m.listeners() != nil
	if !asked && (!started && !s.resumed || !s.wildcard) {
		return // its first EDS request will follow and name them all
	}
	var names []string
	for _, p := range d.parts {
		names = MergeNames(names, p.endpointNames(m.resources.endpointsOf))
	}
	if len(names) == 0 {
		return
	}
	if !asked && !started { // its first EDS request will follow and may report them as held
		m.followers = MergeNames(m.followers, names)
		return
	}
	m.openSubscription(m.types.endpoints).oweFollowing(names)
}

// oweFollowers sends the endpoints in m.followers (oweFollowing) and clears the list. Their
// clusters were sent before it was known whether the client requests EDS.
func (m *Machine) oweFollowers() {
	if len(m.followers) > 0 {
		m.openSubscription(m.types.endpoints).oweFollowing(m.followers)
		m.followers = nil
	}
}

// advanceTimers advances all timers by one Tick event, and applies the end of a timer: see
// ageArrivals, resendEndpoints and unfreezeRemoved. Flights and arrivals do not age while a
// response is being written: the client cannot have answered it, and no other response is sent.
// Draining resources count down only while nothing that the client may still use refers to
// lingering ones (isUnreferenced). It also sets empty maps of the subscriptions to nil.
func (m *Machine) advanceTimers() {
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
		// The client drains from its ACK on.
		if m.resources != nil && len(s.draining) > 0 && m.isUnreferenced(s) {
			for name, left := range s.draining {
				if s.draining[name] = left - 1; left <= 1 {
					delete(s.draining, name)
				}
			}
		}
	}
	if !m.writing {
		m.ageArrivals()
	}
	m.resendEndpoints()
	m.unfreezeRemoved()
	for _, s := range m.subs {
		if s != nil {
			s.releaseEmpty()
		}
	}
}

// resendEndpoints counts the Tick events in which a client that reported endpoints has requested
// clusters but no listeners. After unasked of them it sends the trusted endpoints again, once. Such
// a client lost its stream while it was starting up. One of its clusters still waits for endpoints
// that were being sent on the earlier stream. It does not count while a response is being written
// or one with endpoints is unanswered.
func (m *Machine) resendEndpoints() {
	e := m.endpoints()
	if e == nil || !e.resumed || m.clusters() == nil || m.listeners() != nil || e.age >= unasked {
		return
	}
	if m.writing || len(e.flights) > 0 {
		return // it is only slow
	}
	if e.age++; e.age == unasked {
		e.oweTrusted()
	}
}
