package push

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/view"
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
	// Affected narrows what is made anew of a named type after a change: those of the names that may differ. nil: all.
	Affected func(v *view.View, d snapshot.Delta, names []string) []string
	// Endpoints says whether a change of endpoints alone may alter what All gives, as where clusters hold the endpoints
	// themselves. nil: never.
	Endpoints func(v *view.View, d snapshot.Delta) bool
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

// check panics over a table that cannot work: it is a literal in the program.
func (g *Generator) check() {
	switch {
	case !stream.Serves(g.TypeURL):
		panic(fmt.Sprintf("push: no stream serves %q", g.TypeURL))
	case stream.Wildcard(g.TypeURL) != (g.All != nil), stream.Wildcard(g.TypeURL) == (g.Named != nil):
		panic(fmt.Sprintf("push: the generator of %q must have All if the type has wildcards, or else Named", g.TypeURL))
	}
}
