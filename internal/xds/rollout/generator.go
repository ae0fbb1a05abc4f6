package rollout

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// scopeOf returns the part of Key k that the output of a generator depends on: g.Scope(k), or all
// of k if the generator has no Scope.
func scopeOf(g *view.Generator, k view.Key) view.Key {
	if g.Scope == nil {
		return k
	}
	return g.Scope(k)
}

// manyNames is the number of names from which one call of Every is cheaper than calls of Named.
const manyNames = 100

// lookupNamed returns a function that returns the resource of a name in View v, or nil if there is
// none. The function must be called with names in ascending order. If names, the expected number of
// lookups, is manyNames or more, lookupNamed first generates resources with g.Every, if set. Names
// without such a resource are generated one at a time by g.Named.
func lookupNamed(g *view.Generator, v *view.View, names int) func(name string) *resource.Resource {
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

// checkGenerator panics if no stream serves the generator's type. It also panics unless a wildcard
// type has All and no Named, and every other type has Named and no All. The table of generators is
// a literal in the program, so this is a programming error.
func checkGenerator(g *view.Generator) {
	switch {
	case !stream.Serves(g.TypeURL):
		panic(fmt.Sprintf("rollout: no stream serves %q", g.TypeURL))
	case stream.IsWildcard(g.TypeURL) != (g.All != nil), stream.IsWildcard(g.TypeURL) == (g.Named != nil):
		panic(fmt.Sprintf("rollout: the generator of %q must have All if the type has wildcards, and Named otherwise",
			g.TypeURL))
	}
}
