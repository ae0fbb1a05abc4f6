package rollout

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Generator makes the resources of one type for a View. Its functions are pure and may be called by
// many goroutines. They should cache: a resource whose inputs did not change should be the same
// pointer as before. A type may have several Generators if the names of their resources are
// disjoint.
type Generator struct {
	TypeURL string
	// All returns every resource of a wildcard type (CDS, LDS). It is nil for the other types.
	All func(v *view.View) []*resource.Resource
	// Named returns one resource of a type that is requested by name (EDS, RDS), or nil if it does
	// not exist.
	Named func(v *view.View, name string) *resource.Resource
	// Every returns, sorted by name, the results of Named for all names that proxies of the View
	// certainly request. It is set only if that is cheaper than one call of Named for each name.
	Every func(v *view.View) []*resource.Resource
	// Update returns how the result of All differs after a change: the resources that are new or
	// may differ, and the names that are removed. old is the View of the present resources, d
	// everything that changed since. If ok is false or Update is nil, All is called instead.
	Update func(old, v *view.View, d snapshot.Delta) (diff resource.Diff, ok bool)
	// Affected returns those of the sorted names whose resources may differ after a change. If nil,
	// all of them may.
	Affected func(old, v *view.View, d snapshot.Delta, names []string) []string
	// Touched reports whether a change may alter any resource of a View. s is the snapshot after
	// the change. If nil, View.Touched decides, and for All also whether anything but endpoints
	// changed.
	Touched func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool
	// Inbound marks resources that describe what a proxy serves. The server-first barrier waits
	// until their changes are acknowledged.
	Inbound bool
	// Local reports whether acceptance of the resource depends on the single proxy, for instance on
	// its files. Such a resource is never quarantined. If nil, no resource is local.
	Local func(name string) bool
	// Scope returns the part of a Key that the output depends on, with everything else zero. If
	// nil, it is the whole Key. The functions receive a View of that part alone, so their output
	// cannot depend on the rest.
	Scope func(k view.Key) view.Key
}

func (g *Generator) scope(k view.Key) view.Key {
	if g.Scope == nil {
		return k
	}
	return g.Scope(k)
}

// manyNames is the number of names from which one call of Every is cheaper than calls of Named.
const manyNames = 100

// lookup returns a function that returns resources of a View by name. It must be called with names
// in sorted order.
func (g *Generator) lookup(v *view.View, names int) func(name string) *resource.Resource {
	if g.Every == nil || names < manyNames {
		return func(name string) *resource.Resource { return g.Named(v, name) }
	}
	rest := g.Every(v)
	return func(name string) *resource.Resource {
		for len(rest) > 0 && rest[0].Name < name {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].Name == name {
			return rest[0]
		}
		return g.Named(v, name)
	}
}

// mustBeValid panics if the generator cannot work. The table of generators is a literal in the
// program.
func (g *Generator) mustBeValid() {
	switch {
	case !stream.Serves(g.TypeURL):
		panic(fmt.Sprintf("rollout: no stream serves %q", g.TypeURL))
	case stream.Wildcard(g.TypeURL) != (g.All != nil), stream.Wildcard(g.TypeURL) == (g.Named != nil):
		panic(fmt.Sprintf("rollout: the generator of %q must have All if the type has wildcards, and Named otherwise", g.TypeURL))
	}
}
