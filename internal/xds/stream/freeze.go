package stream

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// frozen is the resources whose changes are held back, by name and as the client has them: endpoints because their
// clusters linger (a cluster that is gone is given an empty assignment, and with it the last requests to the cluster
// would fail), and what refers to clusters that the client was not seen to have yet. Of what only the client knows, and
// of what it does not have at all, there is no more than the name, and perhaps a version.
type frozen map[string]*resource.Resource

// hollow says that nothing but the name, and perhaps the version, of a resource is known.
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

// was gives a resource as the client was last brought up to it, nil if there was none.
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

// asHeld gives what is known of a resource that the client has, or does not have. Endpoints that were never sent give nil:
// there is nothing to keep them at.
func (s *subscription) asHeld(name string) *resource.Resource {
	if r := s.was(name); r != nil || !s.refers() {
		return r
	}
	version, _ := s.held.get(name)
	return &resource.Resource{Name: name, Version: version}
}

// lacks notes names that the client subscribes to for the first time: it does not have what base says. That matters only for
// what may have to wait.
func (s *subscription) lacks(names []string) {
	if !s.refers() || s.wildcard || s.base == nil {
		return
	}
	for _, n := range names {
		delete(s.frozen, n)
		s.freeze(&resource.Resource{Name: n})
	}
}

// stilled gives what says which resources must not change now, nil if all may.
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

// lingeringEndpoints gives the EDS names of the clusters that linger.
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

// endpointsOf gives the EDS name of a lingering cluster; of one that only the client knows it is taken to be its own.
func (m *Machine) endpointsOf(name string, cluster *resource.Resource) string {
	if cluster == nil {
		return name
	}
	return m.world.endpointsOf(cluster)
}

// thaw makes names due whose changes were held back, as far as the client still wants them.
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

// melt ends what was frozen for clusters that are gone for some time: a client unsubscribes from their endpoints when it
// takes their removal in, before or after it acknowledges it. By now it would have.
func (m *Machine) melt() {
	if e := m.endpoints(); e != nil && len(e.frozen) > 0 {
		m.thaw(without(slices.Sorted(maps.Keys(e.frozen)), m.lingeringEndpoints()))
	}
}
