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

// isEmpty reports whether the draft has neither resources nor removals.
func (d *draft) isEmpty() bool { return len(d.parts) == 0 && len(d.removed) == 0 }

// mustWait reports whether a resource must not be sent to the client now. r must not be nil.
func (d *draft) mustWait(r *resource.Resource) bool { return d.still != nil && d.still(r.Name, r) }

// addPayload adds p to the draft. It does nothing if p has no resources.
func (d *draft) addPayload(p *Payload) {
	if len(p.resources) > 0 {
		d.parts = append(d.parts, p)
	}
}

// composeDraft updates a subscription to the newest ResourceSnapshot and returns the response for
// it, or nil if nothing must be sent. If the first response must wait for clusters (mustDelay), it
// returns nil and does not update the subscription. Both modes find the differences in the same
// way; SotW then converts them with stateOfTheWorld.
func (m *Machine) composeDraft(s *subscription) *draft {
	groups := m.resources.lists[s.at].groups
	if s.upToDate(m.round) || len(groups) == 0 {
		return nil
	}
	sets := m.resources.lists[s.at].sets.sets
	if s.base != nil && !s.hasRequest() && !s.isBehind() && slices.Equal(s.base, sets) &&
		len(m.newlyPinned(s)) == 0 {
		s.base, s.reached = sets, m.round
		return nil
	}
	d := &draft{before: s.reached, still: m.heldBackFilter(s)}
	if m.mustDelay(s, d) {
		return nil
	}
	m.pinClusters(s, d)
	if s.everything {
		m.addAll(s, d)
	} else if s.base != nil {
		m.addChanges(s, d)
	}
	m.unfreezeReady(s, d)
	m.startLingering(s, d)
	m.addOwed(s, d)
	m.oweEndpoints(s, d)
	m.recordArrival(s, d)

	s.base = sets
	s.adoptSharedNames(m.resources.lookedUpNames(s.at))
	if !s.isBehind() {
		s.reached = m.round
	}

	due := s.due && len(s.owed) == 0
	if due || !d.isEmpty() {
		s.due = false
	}
	if m.mode == SotW {
		return m.stateOfTheWorld(s, d, due)
	}
	if d.isEmpty() && (!due || s.Silent) {
		return nil
	}
	return d
}

// addAll adds all resources that a wildcard covers to the draft, except those whose current version
// the client reported as held. Resources that must wait are frozen instead. Reported resources that
// do not exist or are not covered are added to the removals, if the type is removable. It clears
// s.everything and s.held. Owed names that it covers are no longer owed.
func (m *Machine) addAll(s *subscription, d *draft) {
	if s.base != nil {
		m.addRemovals(s, d)
		m.recordNewClusters(s, d)
	}
	found, groups := 0, m.resources.lists[s.at].groups
	if s.fetched == nil && s.held.equalSets(m.resources.lists[s.at].sets) {
		found, groups = s.held.Len(), nil // the client has the current version of everything
	}
	for _, group := range groups {
		if s.fetched == nil && s.held.Len() == 0 && d.still == nil && len(s.frozen) == 0 {
			d.addPayload(group.fullPayload())
			continue
		}
		found += s.addGroup(group, d)
	}
	if found < s.held.Len() && s.Removable {
		m.removeHeld(s, d)
	}
	s.owed = slices.DeleteFunc(slices.Clone(s.owed), func(n string) bool {
		return m.resources.findResource(s.at, n) != nil && s.coversName(n) || m.holdsEmpty(s, n)
	})
	s.everything, s.held = false, nil
}

// addGroup adds the resources of a group that the wildcard covers to the draft, and returns how
// many of them the client reported as held. It omits resources held in the current version, and
// freezes resources that must wait. On a resumed stream it records clusters that are not held in
// d.fresh.
func (s *subscription) addGroup(group *ResourceGroup, d *draft) (found int) {
	var list []*resource.Resource
	for r := range group.set.All() {
		if !s.coversName(r.Name) {
			continue
		}
		version, holds := s.held.versionOf(r.Name)
		if holds {
			found++
		} else if s.role == clusterRole && s.resumed && s.base == nil {
			d.fresh = append(d.fresh, r.Name)
		}
		switch {
		case holds && version == r.Version:
		case d.mustWait(r):
			s.freezeResource(s.clientVersion(r.Name))
		default:
			delete(s.frozen, r.Name)
			list = append(list, r)
		}
	}
	d.addPayload(group.payloadOf(list))
	return found
}

// removeHeld adds to the draft's removals the resources that the client reported as held and that
// do not exist, or that it does not subscribe to. Empty clusters of holdsEmpty stay.
func (m *Machine) removeHeld(s *subscription, d *draft) {
	for name := range s.held.All() {
		if (m.resources.findResource(s.at, name) == nil || !s.coversName(name)) && !m.holdsEmpty(s, name) {
			d.removed = append(d.removed, name)
		}
	}
	slices.Sort(d.removed)
}

// addChanges adds to the draft the resources that changed or were deleted since s.base, the sets
// that the client was last updated to, as far as the client subscribes to them.
func (m *Machine) addChanges(s *subscription, d *draft) {
	for i, group := range m.resources.lists[s.at].groups {
		if st := group.diffFrom(s.baseOf(i)); st != nil {
			d.addPayload(s.selectChanges(group, st.updated, d))
		}
	}
	m.addRemovals(s, d)
	m.recordNewClusters(s, d)
}

// addRemovals adds the subscribed resources that were deleted since s.base to the draft's removals,
// sorted, if the type is removable. A resource that another group now has is not removed. A name
// that the ResourceSnapshot has not looked up is not removed either: it is added to s.owed, and
// sent if it changed.
func (m *Machine) addRemovals(s *subscription, d *draft) {
	for i, group := range m.resources.lists[s.at].groups {
		st := group.diffFrom(s.baseOf(i))
		if st == nil {
			continue
		}
		for _, n := range st.removed {
			switch {
			case !s.coversName(n) || m.resources.findResource(s.at, n) != nil:
			case !m.resources.isKnown(s.at, n): // look it up, and send it if it changed
				if !containsName(s.owed, n) {
					s.oweUnlessEqual(s.previousVersion(n))
				}
			case s.Removable:
				d.removed = append(d.removed, n)
			}
		}
	}
	slices.Sort(d.removed)
}

// recordNewClusters records in d.fresh the subscribed clusters that are new since s.base and not
// frozen. It applies only to wildcard subscriptions of clusters. Names may be added twice.
func (m *Machine) recordNewClusters(s *subscription, d *draft) {
	if s.role != clusterRole || !s.wildcard {
		return
	}
	for i, group := range m.resources.lists[s.at].groups {
		if st := group.diffFrom(s.baseOf(i)); st != nil {
			for _, n := range st.added {
				if s.previousVersion(n) == nil && s.coversName(n) {
					d.fresh = append(d.fresh, n)
				}
			}
		}
	}
}

// baseOf returns the set in s.base of the ResourceGroup at an index, or nil if s.base has none at
// that index.
func (s *subscription) baseOf(group int) *resource.Set {
	if group < len(s.base) {
		return s.base[group]
	}
	return nil
}

// selectChanges returns a Payload of the resources of p, a Payload of the group, that must be sent
// to the client now (sendsNow), or p itself if these are all. The result may be empty. It freezes
// resources that must wait.
func (s *subscription) selectChanges(group *ResourceGroup, p *Payload, d *draft) *Payload {
	var part []*resource.Resource
	whole := true
	for i, r := range p.resources {
		switch takes := s.sendsNow(r, d); {
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
	return group.payloadOf(part)
}

// sendsNow reports whether the changed resource r is sent to the client now. It returns false if r
// is not subscribed to or is in s.owed (addOwed adds these), and if r must wait: then it is frozen.
// A frozen resource that need not wait is unfrozen, and sent if its version changed.
func (s *subscription) sendsNow(r *resource.Resource, d *draft) bool {
	if containsName(s.owed, r.Name) {
		return false
	}
	// Freeze endpoints even if they are not subscribed to: the client may request them later, while
	// their cluster lingers.
	covers := s.coversName(r.Name)
	if (covers || s.role == endpointRole) && d.mustWait(r) {
		s.freezeResource(s.clientVersion(r.Name))
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
