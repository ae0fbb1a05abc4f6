package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Has reports whether the client has acknowledged this version of r and has not been sent another
// version since. It also returns true if the client does not subscribe to r. Unlike Took, it does
// not depend on other pending resources of the type.
func (m *Machine) Has(typeURL string, r *resource.Resource) bool {
	at := m.types.place(typeURL)
	s := m.sub(at)
	switch {
	case at < 0:
		return true
	case s == nil: // it will still subscribe to clusters and listeners
		return !m.types.list[at].Wildcard || m.types.list[at].Silent || m.namesAll()
	case !s.covers(r.Name):
		return true
	}
	if was := s.was(r.Name); was == nil || was.Version != r.Version || has(s.owed, r.Name) {
		return false
	}
	if _, refused := s.refused[r.Name]; refused {
		return false
	}
	return !slices.ContainsFunc(s.flights, func(f flight) bool { return holding(f.parts, r.Name) != nil })
}

// Acknowledged reports whether the client is subscribed to the resource, has acknowledged this
// version of it and has not been sent another version since. Unlike Has, it returns false if the
// client does not subscribe to the resource.
func (m *Machine) Acknowledged(typeURL string, r *resource.Resource) bool {
	s := m.sub(m.types.place(typeURL))
	return s != nil && s.covers(r.Name) && m.Has(typeURL, r)
}

// TookAll reports whether the client has requested clusters and listeners, and has acknowledged
// everything of the newest World that it subscribes to. A client that names its listeners need not
// request clusters.
func (m *Machine) TookAll() bool {
	if m.world == nil || !m.namesAll() && (m.clusters() == nil || m.listeners() == nil) {
		return false
	}
	return !slices.ContainsFunc(m.subs, func(s *subscription) bool {
		return s != nil && len(m.world.shelves[s.at]) > 0 && !m.took(s)
	})
}

// namesAll reports whether the client subscribes to listeners by name, as gRPC does. Such a client
// also requests clusters by name, and only if it makes calls.
func (m *Machine) namesAll() bool {
	l := m.listeners()
	return l != nil && !l.wildcard
}
