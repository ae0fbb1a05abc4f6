package stream

import "github.com/meshpilot/meshpilot/internal/model/resource"

// addOwed adds the resources in s.owed to the draft, except versions that the client reported and
// does not wait for, and removes them from s.owed. Names not looked up yet stay there; names that
// do not exist become removals if the type is removable, and are otherwise not answered. Names that
// must not change now are frozen, and answered with the client's previous version unless it
// reported that. If that version is unknown, resources that wait for clusters are not answered yet;
// others are sent, or removed in delta mode if they do not exist here (unchangedOwed).
func (m *Machine) addOwed(s *subscription, d *draft) {
	s.removeUncovered(d)
	if len(s.owed) == 0 {
		return
	}
	owed := m.changedOwed(s, d)
	owed = m.unchangedOwed(s, owed, d)
	found := 0
	for _, group := range m.resources.lists[s.at].groups {
		p := group.selectNames(owed)
		found += len(p.resources)
		d.addPayload(p)
	}
	var later []string
	if found < len(owed) {
		m.resources.forEachNamed(s.at, owed, func(n string, r *resource.Resource) {
			switch {
			case r != nil:
			case !m.resources.isKnown(s.at, n):
				later = append(later, n)
			case s.Removable && !containsName(d.removed, n):
				d.removed = MergeNames(d.removed, []string{n})
				delete(s.gone, n)
				delete(s.draining, n)
			}
		})
	}
	s.owed = later
	s.following, s.resend = IntersectNames(s.following, later), IntersectNames(s.resend, later)
	if later == nil {
		s.held = nil
	}
}

// changedOwed returns the names in s.owed that must be sent. It omits names whose current version
// the client reported, unless the client waits for them (s.following, s.resend). It also omits
// names whose changes must wait (d.still), and freezes them. On a resumed stream it adds omitted
// endpoints to s.trusted.
//
// Endpoints that do not exist here (Resource.Placeholder) are not sent on a resumed stream either.
// The draft removes them, unless they must wait anyway: a cluster that waits for them becomes
// active, and one that is in use keeps the endpoints that it has. The client does not report these
// again if an earlier stream removed them.
func (m *Machine) changedOwed(s *subscription, d *draft) []string {
	if s.held.Len() == 0 {
		return s.owed
	}
	if m.holdsAllOwed(s) {
		if s.role == endpointRole && s.resumed {
			s.trusted = MergeNames(s.trusted, s.owed)
		}
		return nil
	}
	var list, kept []string
	m.resources.forEachNamed(s.at, s.owed, func(n string, r *resource.Resource) {
		version, holds := s.held.versionOf(n)
		follows := containsName(s.following, n)
		switch {
		case r == nil || !holds && (!r.Placeholder || !s.resumed || d.mustWait(r)):
			list = append(list, n)
		case r.Version == version:
			if follows || containsName(s.resend, n) {
				list = append(list, n)
			}
		case holds && d.mustWait(r) && !follows:
			s.freezeResource(&resource.Resource{Name: n, Version: version})
			kept = append(kept, n)
		case r.Placeholder && (!holds || s.held.isReported(n)):
			d.removed = MergeNames(d.removed, []string{n})
			kept = append(kept, n)
		default:
			list = append(list, n)
		}
	})
	if s.role == endpointRole && s.resumed {
		s.trusted = MergeNames(s.trusted, SubtractNames(SubtractNames(s.owed, list), kept))
	}
	return list
}

// holdsAllOwed reports whether the client reported the current version of every name in s.owed, and
// waits for none of them. It compares whole sets, so it may return false although each name
// matches.
func (m *Machine) holdsAllOwed(s *subscription) bool {
	return s.resend == nil && len(s.following) == 0 && len(s.owed) == s.held.Len() &&
		s.held.equalSets(m.resources.lists[s.at].sets) &&
		(EqualNames(s.owed, m.resources.lookedUpNames(s.at)) || m.resources.hasAll(s.at, s.owed))
}

// unchangedOwed returns the names in owed that may be sent in their current version. For names that
// must not change now (d.still) it adds the client's previous version to the draft instead, and
// freezes them. If that version is not known, endpoints are sent nevertheless; in delta mode, ones
// that do not exist here are removed by the draft. A resource that waits for its clusters, and
// whose previous version is not known, is frozen and not answered yet.
func (m *Machine) unchangedOwed(s *subscription, owed []string, d *draft) []string {
	if d.still == nil && len(s.frozen) == 0 {
		return owed
	}
	var settled []string
	var before []*resource.Resource
	m.resources.forEachNamed(s.at, owed, func(n string, is *resource.Resource) {
		was := s.previousVersion(n)
		switch {
		case is == nil || !d.mustWait(is) || was != nil && was.Version == is.Version:
			if s.refersToClusters() {
				delete(s.frozen, n) // sent now
			}
			return
		case was != nil && !isNameOnly(was):
			before = append(before, was)
		case is.Placeholder && m.mode == Delta: // its cluster lingers
			d.removed = MergeNames(d.removed, []string{n})
		case !s.refersToClusters():
			return
		}
		settled = append(settled, n)
		s.freezeResource(s.clientVersion(n))
	})
	d.addPayload(NewPayload(before))
	return SubtractNames(owed, settled)
}

// oweUnlessEqual adds the resource with r's name to s.owed, and records in s.held that the client
// has r's version. So it is sent, once it was looked up, only if its newest version differs.
func (s *subscription) oweUnlessEqual(r *resource.Resource) {
	s.held = s.held.withVersion(r.Name, r.Version)
	s.oweNames([]string{r.Name})
}
