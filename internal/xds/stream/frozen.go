package stream

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// frozen maps names to resources whose changes are held back, in the version that the client has.
//
// Endpoints are frozen because their clusters linger. A deleted cluster has an empty assignment,
// with which the last requests to it would fail. Resources that refer to clusters are frozen until
// the client has shown that it has these clusters. If only the client knows a resource, or the
// client lacks it, the entry has just the name and perhaps a version.
type frozen map[string]*resource.Resource

// isNameOnly reports whether r has no contents: only the name of a resource, and perhaps its
// version, is known.
func isNameOnly(r *resource.Resource) bool { return r.TypeURL == "" }

// freezeResource holds back changes of the resource r, where r is the version that the client has.
// It does nothing if r is nil or a version of it is frozen already.
func (s *subscription) freezeResource(r *resource.Resource) {
	if r == nil || s.frozen[r.Name] != nil {
		return
	}
	if s.frozen == nil {
		s.frozen = frozen{}
	}
	s.frozen[r.Name] = r
}

// unfreezeNames ends the holding back of changes of the named resources. It does not send them.
func (s *subscription) unfreezeNames(names []string) {
	for _, n := range names {
		delete(s.frozen, n)
	}
}

// previousVersion returns the resource in the version that the client was last updated to: the
// frozen resource, or else the resource in s.base. It returns nil if neither has the name.
func (s *subscription) previousVersion(name string) *resource.Resource {
	if r := s.frozen[name]; r != nil {
		return r
	}
	for _, set := range s.base {
		if r := set.Get(name); r != nil {
			return r
		}
	}
	return nil
}

// clientVersion returns the client's version of a resource that is about to be frozen. If none was
// sent, it returns a resource with only the name and the version that the client reported, if any.
// For types that do not refer to clusters it then returns nil, because there is no version to keep.
func (s *subscription) clientVersion(name string) *resource.Resource {
	if r := s.previousVersion(name); r != nil || !s.refersToClusters() {
		return r
	}
	version, _ := s.held.versionOf(name)
	return &resource.Resource{Name: name, Version: version}
}

// markLacking records that the client lacks the resources of names, to which it subscribes for the
// first time. It replaces their frozen entries by entries without contents, so that the resources
// are sent like new ones, or wait for their clusters, even if s.base contains them. It does nothing
// unless the type refers to clusters, is not subscribed to as a wildcard and has a base.
func (s *subscription) markLacking(names []string) {
	if !s.refersToClusters() || s.wildcard || s.base == nil {
		return
	}
	for _, n := range names {
		delete(s.frozen, n)
		s.freezeResource(&resource.Resource{Name: n})
	}
}

// heldBackFilter returns a function that reports whether a resource must not change now, or nil if
// every resource may change. Held back are endpoints of frozen or lingering clusters, and resources
// that refer to clusters that the client may lack.
func (m *Machine) heldBackFilter(s *subscription) func(name string, is *resource.Resource) bool {
	switch {
	case s.role == endpointRole:
		names := MergeNames(slices.Sorted(maps.Keys(s.frozen)), m.lingeringEndpoints())
		if len(names) == 0 {
			return nil
		}
		return func(name string, _ *resource.Resource) bool { return containsName(names, name) }
	case s.refersToClusters() && m.mayLackClusters():
		return func(_ string, is *resource.Resource) bool { return m.mustWait(s, is) }
	default:
		return nil
	}
}

// lingeringEndpoints returns the names of the ClusterLoadAssignments of the lingering clusters,
// sorted and without duplicates. It returns nil if none linger or clusters were not requested.
func (m *Machine) lingeringEndpoints() []string {
	c := m.clusters()
	if c == nil || len(c.gone) == 0 {
		return nil
	}
	var names []string
	for name, cluster := range c.gone {
		names = append(names, m.endpointsOf(name, cluster))
	}
	return sortedNames(names)
}

// endpointsOf returns the name of the ClusterLoadAssignment of a lingering cluster. If the cluster
// is nil, because only the client knows it, it returns the cluster's own name.
func (m *Machine) endpointsOf(name string, cluster *resource.Resource) string {
	if cluster == nil {
		return name
	}
	return m.resources.endpointsOf(cluster)
}

// unfreezeEndpoints unfreezes the named endpoints. Endpoints that have changed since they were
// frozen are added to owed if the client still subscribes to them. It does nothing if the client
// has no subscription to endpoints.
func (m *Machine) unfreezeEndpoints(names []string) {
	e := m.endpoints()
	if e == nil {
		return
	}
	for _, n := range names {
		was, is := e.frozen[n], m.resources.findResource(e.at, n)
		delete(e.frozen, n)
		if was != nil && is != nil && was.Version != is.Version && e.coversName(n) {
			e.oweNames([]string{n})
		}
	}
}

// unfreezeRemoved unfreezes the endpoints of clusters that no longer linger. A client unsubscribes
// from them when it processes the removal, before or after it acknowledges it. At the next Tick
// event it should have done so.
func (m *Machine) unfreezeRemoved() {
	if e := m.endpoints(); e != nil && len(e.frozen) > 0 {
		m.unfreezeEndpoints(SubtractNames(slices.Sorted(maps.Keys(e.frozen)), m.lingeringEndpoints()))
	}
}
