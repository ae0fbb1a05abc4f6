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

// hollow reports whether only the name, and perhaps the version, of a resource is known.
func hollow(r *resource.Resource) bool { return r.TypeURL == "" }

func (s *subscription) freeze(r *resource.Resource) {
	if r == nil || s.frozen[r.Name] != nil {
		return
	}
	if s.frozen == nil {
		s.frozen = frozen{}
	}
	s.frozen[r.Name] = r
}

func (s *subscription) unfreeze(names []string) {
	for _, n := range names {
		delete(s.frozen, n)
	}
}

// was returns a resource in the version that the client was last updated to, or nil if there was
// none.
func (s *subscription) was(name string) *resource.Resource {
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

// asHeld returns the client's version of a resource that is about to be frozen. For types that
// refer to clusters, a resource that was never sent has only a name and the held version, if any.
// For other types it returns nil, because there is no version to keep.
func (s *subscription) asHeld(name string) *resource.Resource {
	if r := s.was(name); r != nil || !s.refers() {
		return r
	}
	version, _ := s.held.get(name)
	return &resource.Resource{Name: name, Version: version}
}

// lacks records that the client does not have names, to which it subscribes for the first time,
// although they may be in base. It does nothing unless the type refers to clusters, is not
// subscribed to as a wildcard and has a base.
func (s *subscription) lacks(names []string) {
	if !s.refers() || s.wildcard || s.base == nil {
		return
	}
	for _, n := range names {
		delete(s.frozen, n)
		s.freeze(&resource.Resource{Name: n})
	}
}

// stilled returns a function that reports whether a resource must not change now, or nil if every
// resource may change.
func (m *Machine) stilled(s *subscription) func(name string, is *resource.Resource) bool {
	switch {
	case s.role == endpointRole:
		names := union(slices.Sorted(maps.Keys(s.frozen)), m.lingeringEndpoints())
		if len(names) == 0 {
			return nil
		}
		return func(name string, _ *resource.Resource) bool { return has(names, name) }
	case s.refers() && m.doubtful():
		return func(_ string, is *resource.Resource) bool { return m.waits(s, is) }
	default:
		return nil
	}
}

// lingeringEndpoints returns the EDS names of the lingering clusters, sorted.
func (m *Machine) lingeringEndpoints() []string {
	c := m.clusters()
	if c == nil || len(c.gone) == 0 {
		return nil
	}
	var names []string
	for name, cluster := range c.gone {
		names = append(names, m.endpointsOf(name, cluster))
	}
	return sorted(names)
}

// endpointsOf returns the EDS name of a lingering cluster. If the cluster is nil, because only the
// client knows it, its own name is assumed.
func (m *Machine) endpointsOf(name string, cluster *resource.Resource) string {
	if cluster == nil {
		return name
	}
	return m.world.endpointsOf(cluster)
}

// thaw unfreezes endpoints. Endpoints that have changed since become due if the client still
// subscribes to them.
func (m *Machine) thaw(names []string) {
	e := m.endpoints()
	if e == nil {
		return
	}
	for _, n := range names {
		was, is := e.frozen[n], m.world.get(e.at, n)
		delete(e.frozen, n)
		if was != nil && is != nil && was.Version != is.Version && e.covers(n) {
			e.owe([]string{n})
		}
	}
}

// melt unfreezes the endpoints of clusters that no longer linger. A client unsubscribes from them
// when it processes the removal, before or after it acknowledges it. At the next Overdue event it
// should have done so.
func (m *Machine) melt() {
	if e := m.endpoints(); e != nil && len(e.frozen) > 0 {
		m.thaw(without(slices.Sorted(maps.Keys(e.frozen)), m.lingeringEndpoints()))
	}
}
