package stream

import (
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Clusters on demand (ADR 52): a client with a wildcard subscription is sent only the clusters that
// it needs at all times. Any other cluster is sent when the client subscribes to its name, which
// Envoy does when a request or connection is first routed to it.

// onDemand is the part of a subscription for resources that the client fetches on demand.
type onDemand struct {
	// fetched reports whether the client fetches the resource of a name on demand. It is nil if the
	// wildcard covers all resources of the type.
	fetched func(name string) bool
	// pinned are the names of clusters that are sent all the same, sorted: some resource uses them
	// without fetching them. A cluster stays pinned until the stream ends.
	pinned []string
}

// excludes reports whether a wildcard does not cover the name: the client fetches it on demand and
// it is not pinned. It returns false if no names are fetched on demand.
func (o *onDemand) excludes(name string) bool {
	return o.fetched != nil && o.fetched(name) && !containsName(o.pinned, name)
}

// pinnedClusters are the clusters that the resources of a ResourceSnapshot use without fetching
// them on demand. They are found when they are first needed.
type pinnedClusters struct {
	by    func(r *resource.Resource) []string
	once  sync.Once
	names []string
}

// fetchedOf returns the predicate that reports which resources of a type clients fetch on demand,
// or nil if there are none. Only clusters are.
func (w *ResourceSnapshot) fetchedOf(t *Type) func(name string) bool {
	if w == nil || t.role != clusterRole {
		return nil
	}
	return w.fetched
}

// pinnedNames returns the names of the pinned clusters, sorted, nil if there are none or clusters
// are not fetched on demand. The first call computes them from all resources that may refer to
// clusters, and caches the result.
func (w *ResourceSnapshot) pinnedNames() []string {
	p := w.pinned
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		for at, list := range w.lists {
			if !w.types.list[at].refersToClusters() {
				continue
			}
			for _, group := range list.groups {
				for r := range group.set.All() {
					p.names = append(p.names, p.by(r)...)
				}
			}
		}
		p.names = sortedNames(p.names)
	})
	return p.names
}

// newlyPinned returns the clusters that the newest ResourceSnapshot pins and s does not, sorted. It
// returns nil for types that are not fetched on demand.
func (m *Machine) newlyPinned(s *subscription) []string {
	if s.fetched == nil || !s.wildcard {
		return nil
	}
	return SubtractNames(m.resources.pinnedNames(), s.pinned)
}

// pinClusters makes the wildcard of s cover the clusters that the newest ResourceSnapshot pins. A
// client that was updated before is sent these clusters, and resources that refer to them wait
// until it has them, also if it is fetching them already. It does nothing for types that are not
// fetched on demand.
func (m *Machine) pinClusters(s *subscription, d *draft) {
	added := m.newlyPinned(s)
	if len(added) == 0 {
		return
	}
	fetched := IntersectNames(added, s.names) // perhaps only now
	var underway []*resource.Resource
	for _, n := range fetched {
		underway = append(underway, &resource.Resource{Name: n})
	}
	m.recordUnanswered(s, underway)
	d.fresh = append(d.fresh, IntersectNames(fetched, s.owed)...)
	added = slices.DeleteFunc(slices.Clone(added), s.coversName)
	s.pinned = MergeNames(s.pinned, m.resources.pinnedNames())
	if s.base != nil {
		s.oweNames(added)
		d.fresh = append(d.fresh, added...)
	}
}

// removeUncovered removes from s.owed the names that the client has unsubscribed from and that its
// wildcard does not cover, and adds them to the draft's removals. It does nothing for types that
// are not fetched on demand.
func (s *subscription) removeUncovered(d *draft) {
	if s.fetched == nil {
		return
	}
	uncovered := slices.DeleteFunc(slices.Clone(s.owed), s.coversName)
	if len(uncovered) > 0 {
		s.owed = SubtractNames(s.owed, uncovered)
		d.removed = MergeNames(d.removed, uncovered)
	}
}

// holdsEmpty reports whether the client names a cluster that does not exist, and has reported the
// empty one that replaceRemovals would send. It returns false for types that are not fetched on
// demand. The name must be subscribed to explicitly.
func (m *Machine) holdsEmpty(s *subscription, name string) bool {
	if s.fetched == nil || !s.fetched(name) || !containsName(s.names, name) ||
		m.resources.findResource(s.at, name) != nil {
		return false
	}
	version, holds := s.held.versionOf(name)
	return holds && version == m.resources.empty(name).Version
}

// replaceRemovals replaces removals in the draft by empty clusters, for clusters that the client
// has fetched by their names; other removals stay. Envoy never fetches a removed cluster again:
// each call would wait for its timeout. With an empty cluster it fails at once. It does nothing for
// types that are not fetched on demand.
func (m *Machine) replaceRemovals(s *subscription, d *draft) {
	if s.fetched == nil {
		return
	}
	var kept []string
	var empty []*resource.Resource
	for _, n := range d.removed {
		if s.fetched(n) && containsName(s.names, n) {
			empty = append(empty, m.resources.empty(n))
		} else {
			kept = append(kept, n)
		}
	}
	d.removed = kept
	d.addPayload(NewPayload(empty))
}
