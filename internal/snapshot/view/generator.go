package view

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Generator generates the resources of one type for a View. Its functions are pure and safe for
// concurrent use: caches do not affect the output. They should cache, so that a resource whose
// inputs did not change is the same pointer as before. A type may have several Generators if the
// names of their resources are disjoint.
type Generator struct {
	TypeURL string
	// All returns all resources of a type that proxies subscribe to as a whole (CDS, LDS). It is
	// nil for types that are subscribed by name.
	All func(v *View) []*resource.Resource
	// Named returns one resource of a type that proxies subscribe to by name (EDS, RDS), or nil if
	// no resource has that name. It is nil for types that have All.
	Named func(v *View, name string) *resource.Resource
	// Every returns, sorted by name, the output of Named for all names that the View's proxies are
	// certain to request. It is set only if that is cheaper than one call of Named for each name.
	Every func(v *View) []*resource.Resource
	// Update returns the difference between the outputs of All for old and for v: the resources
	// that are new or may differ, and the names that are removed. d is everything that changed
	// between them. If ok is false or Update is nil, All is called instead.
	Update func(old, v *View, d snapshot.Delta) (diff resource.Diff, ok bool)
	// Affected returns the elements of names, which are sorted, whose output of Named may differ
	// between old and v. If Affected is nil, all of them may.
	Affected func(old, v *View, d snapshot.Delta, names []string) []string
	// Touched reports whether a change may alter the output for v; s is the snapshot after the
	// change. If nil, View.IsAffectedBy decides, and for All also whether anything but endpoints
	// changed. See IsTouched.
	Touched func(v *View, s *snapshot.Snapshot, d snapshot.Delta) bool
	// Inbound is set if the resources configure inbound traffic. Clients are updated after servers
	// have acknowledged a change of such resources.
	Inbound bool
	// Local reports whether a proxy's acceptance of the named resource depends on something that
	// only that proxy has, such as its files. Such a resource is never quarantined. If Local is
	// nil, no resource is local.
	Local func(name string) bool
	// Scope returns the part of a Key that the output depends on, with the other fields zero. Views
	// with equal Scopes share the output. If Scope is nil, the output depends on the whole Key. The
	// functions receive a View of that part alone, so their output cannot depend on the rest.
	Scope func(k Key) Key
}

// IsTouched reports whether the change d may alter the output for v; s is the snapshot after it. A
// change that alters only EDS touches no other type. Otherwise Touched decides, if it is set. Without
// it, a generator of all resources (All) is not touched by changes of endpoints alone, and
// View.IsAffectedBy decides the rest.
func (g *Generator) IsTouched(v *View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	switch {
	case g.TypeURL != api.EndpointType && d.AltersOnlyEDS():
		return false
	case g.Touched != nil:
		return g.Touched(v, s, d)
	case g.All != nil && d.EndpointsOnly():
		return false
	default:
		return v.IsAffectedBy(d)
	}
}
