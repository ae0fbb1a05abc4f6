package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// HasAcked reports whether the client has acknowledged this version of r, and has neither rejected
// it nor been sent another version since. It also returns true if the client does not subscribe to
// r. Unlike AckedType, it does not depend on other resources of the type.
func (m *Machine) HasAcked(r *resource.Resource) bool { return m.DeliveryOf(r) <= Acknowledged }

// HasAckedSubscribed reports whether the client subscribes to r, has acknowledged this version of
// it and has not been sent another version since. Unlike HasAcked, it returns false if the client
// does not subscribe to r.
func (m *Machine) HasAckedSubscribed(r *resource.Resource) bool {
	return m.DeliveryOf(r) == Acknowledged
}

// AckedAll reports whether the client has requested clusters and listeners, and has acknowledged
// everything of the newest ResourceSnapshot that it subscribes to. A client that names its
// listeners (gRPC) need not have requested clusters. It returns false before the first
// ResourceSnapshot.
func (m *Machine) AckedAll() bool {
	if m.resources == nil || !m.subscribesByName() && (m.clusters() == nil || m.listeners() == nil) {
		return false
	}
	return !slices.ContainsFunc(m.subs, func(s *subscription) bool {
		return s != nil && len(m.resources.lists[s.at].groups) > 0 && !m.hasAckedAllOf(s)
	})
}

// subscribesByName reports whether the client subscribes to listeners by name, as gRPC does. Such a
// client also requests clusters by name, and only if it makes calls.
func (m *Machine) subscribesByName() bool {
	l := m.listeners()
	return l != nil && !l.wildcard
}
