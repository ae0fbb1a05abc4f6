package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// HasAcked reports whether the client has acknowledged this version of r and has not been sent
// another version since, nor rejected it. It also returns true if the client does not subscribe to
// r. Unlike AckedType, it does not depend on other pending resources of the type.
func (m *Machine) HasAcked(typeURL string, r *resource.Resource) bool {
	at := m.types.positionOf(typeURL)
	s := m.subscriptionAt(at)
	switch {
	case at < 0:
		return true
	case s == nil: // it will still subscribe to clusters and listeners
		return !m.types.list[at].Wildcard || m.types.list[at].Silent || m.subscribesByName()
	case !s.coversName(r.Name):
		return true
	}
	if was := s.previousVersion(r.Name); was == nil || was.Version != r.Version || containsName(s.owed, r.Name) {
		return false
	}
	if _, refused := s.refused[r.Name]; refused {
		return false
	}
	return !slices.ContainsFunc(s.flights, func(f flight) bool { return findResource(f.parts, r.Name) != nil })
}

// HasAckedSubscribed reports whether the client is subscribed to the resource, has acknowledged
// this version of it and has not been sent another version since. Unlike Has, it returns false if
// the client does not subscribe to the resource.
func (m *Machine) HasAckedSubscribed(typeURL string, r *resource.Resource) bool {
	s := m.subscriptionAt(m.types.positionOf(typeURL))
	return s != nil && s.coversName(r.Name) && m.HasAcked(typeURL, r)
}

// AckedAll reports whether the client has requested clusters and listeners, and has acknowledged
// everything of the newest ResourceSnapshot that it subscribes to. A client that names its
// listeners need not request clusters.
func (m *Machine) AckedAll() bool {
	if m.resources == nil || !m.subscribesByName() && (m.clusters() == nil || m.listeners() == nil) {
		return false
	}
	return !slices.ContainsFunc(m.subs, func(s *subscription) bool {
		return s != nil && len(m.resources.groups[s.at]) > 0 && !m.hasAckedAllOf(s)
	})
}

// subscribesByName reports whether the client subscribes to listeners by name, as gRPC does. Such a
// client also requests clusters by name, and only if it makes calls.
func (m *Machine) subscribesByName() bool {
	l := m.listeners()
	return l != nil && !l.wildcard
}
