package push

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Generator makes resources of one type for a View. Its functions are pure, may be called by many goroutines, and should
// remember: a resource whose inputs did not change should be the same pointer as before. A type may have several
// Generators, whose resources have different names.
type Generator struct {
	TypeURL string
	// All makes every resource of a wildcard type (CDS, LDS); nil for the others.
	All func(v *view.View) []*resource.Resource
	// Named makes one resource of a type that is asked for by name (EDS, RDS). nil: there is no such resource.
	Named func(v *view.View, name string) *resource.Resource
	// Every gives, sorted by name, what Named gives for all names that proxies of the View surely ask for, where that costs
	// less than to ask for each. nil: it does not.
	Every func(v *view.View) []*resource.Resource
	// Update gives what a change altered of what All gives: resources that are new or may differ, and names that are gone.
	// old is the View that the present ones were made for, d all that changed since. ok false: it cannot tell, All is
	// to be asked. nil: never.
	Update func(old, v *view.View, d snapshot.Delta) (diff resource.Diff, ok bool)
	// Affected narrows what is made anew of a named type after a change: those of the names, which are sorted, that may
	// differ. nil: all.
	Affected func(old, v *view.View, d snapshot.Delta, names []string) []string
	// Touched says whether a change may alter anything of what was made for a View; false only if it surely does not. s is
	// the snapshot after the change. nil: whether it touches the View, and for All that it is of more than endpoints.
	Touched func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool
	// Inbound says that the resources are about what a proxy serves. A change of them is acknowledged before others learn of
	// what they may call because of it.
	Inbound bool
	// Local says that whether a proxy takes the resource of a name is a matter of that proxy alone, such as the files that it
	// has: what one of them refuses is not kept from others. nil: none is.
	Local func(name string) bool
	// Scope gives the part of a Key that the output depends on, with everything else zero; nil: all of it. The functions
	// get a View built from that part alone, so they cannot depend on what Scope leaves out.
	Scope func(k view.Key) view.Key
}

func (g *Generator) scope(k view.Key) view.Key {
	if g.Scope == nil {
		return k
	}
	return g.Scope(k)
}

// manyNames is from how many names on it is cheaper to make everything at once.
const manyNames = 100

// by gives the function that makes resources of a View by name, for so many names in sorted order.
func (g *Generator) by(v *view.View, names int) func(name string) *resource.Resource {
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

// check panics over a table that cannot work: it is a literal in the program.
func (g *Generator) check() {
	switch {
	case !stream.Serves(g.TypeURL):
		panic(fmt.Sprintf("push: no stream serves %q", g.TypeURL))
	case stream.Wildcard(g.TypeURL) != (g.All != nil), stream.Wildcard(g.TypeURL) == (g.Named != nil):
		panic(fmt.Sprintf("push: the generator of %q must have All if the type has wildcards, or else Named", g.TypeURL))
	}
}
