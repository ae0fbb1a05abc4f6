package fleet

import "time"

// Assignment is the control plane that serves a proxy.
type Assignment struct {
	// Address is its index in Options.Addresses.
	Address int
	// Since is when the proxy had all that it requested on its stream.
	Since time.Time
}

// Assignments returns the assignment of each proxy. It is nil for a proxy that has no stream, or
// whose stream is not in sync yet.
func (f *Fleet) Assignments() []*Assignment {
	list := make([]*Assignment, len(f.proxies))
	for i, p := range f.proxies {
		list[i] = p.assigned.Load()
	}
	return list
}
