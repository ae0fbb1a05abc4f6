package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Has says that the client has acknowledged a resource of the type in that version, and was sent no other one of its name since; or
// that it does not want it. It can tell where Took cannot, for it does not matter what else the client is still to be sent.
func (m *Machine) Has(typeURL string, r *resource.Resource) bool {
	at := m.types.place(typeURL)
	s := m.sub(at)
	switch {
	case at < 0:
		return true
	case s == nil: // clusters and listeners it will ask for yet
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

// Acknowledged reports whether the client is subscribed to the resource, has acknowledged this version of it and has not been
// sent another version since. Unlike Has, it is false for what the client did not ask for.
func (m *Machine) Acknowledged(typeURL string, r *resource.Resource) bool {
	s := m.sub(m.types.place(typeURL))
	return s != nil && s.covers(r.Name) && m.Has(typeURL, r)
}

// TookAll says that the client has asked for clusters and listeners, and has acknowledged everything of the newest World that it
// asked for.
func (m *Machine) TookAll() bool {
	if m.world == nil || !m.namesAll() && (m.clusters() == nil || m.listeners() == nil) {
		return false
	}
	return !slices.ContainsFunc(m.subs, func(s *subscription) bool {
		return s != nil && len(m.world.shelves[s.at]) > 0 && !m.took(s)
	})
}

// namesAll says that the client names the listeners that it wants, as gRPC does. Such a one asks for clusters by name too, and only
// if it calls somebody.
func (m *Machine) namesAll() bool {
	l := m.listeners()
	return l != nil && !l.wildcard
}
