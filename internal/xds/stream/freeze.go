package stream

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/resource"
)

// frozen is the endpoints whose changes are held back because their clusters linger, by name and as the client has them;
// without a TypeURL and Body if only the client knows them. A cluster that is gone is given an empty assignment, and with it
// the last requests to the cluster would fail.
type frozen map[string]*resource.Resource

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

// stilled gives the names whose resources must not change now.
func (m *Machine) stilled(s *subscription) []string {
	if s.at != eds {
		return nil
	}
	return union(slices.Sorted(maps.Keys(s.frozen)), m.lingeringEndpoints())
}

// lingeringEndpoints gives the EDS names of the clusters that linger.
func (m *Machine) lingeringEndpoints() []string {
	c := m.subs[cds]
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
	return m.world.endpoints(cluster)
}

// thaw makes names due whose changes were held back, as far as the client still wants them.
func (m *Machine) thaw(names []string) {
	e := m.subs[eds]
	if e == nil {
		return
	}
	for _, n := range names {
		was, is := e.frozen[n], m.world.get(eds, n)
		delete(e.frozen, n)
		if was != nil && is != nil && was.Version != is.Version && e.covers(n) {
			e.owe([]string{n})
		}
	}
}

// melt ends what was frozen for clusters that are gone for some time: a client unsubscribes from their endpoints when it
// takes their removal in, before or after it acknowledges it. By now it would have.
func (m *Machine) melt() {
	if e := m.subs[eds]; e != nil && len(e.frozen) > 0 {
		m.thaw(without(slices.Sorted(maps.Keys(e.frozen)), m.lingeringEndpoints()))
	}
}
