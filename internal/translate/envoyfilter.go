package translate

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/patch"
	"github.com/meshpilot/meshpilot/internal/translate/route"
)

// patching wraps generators to apply EnvoyFilters to their output. Resources that EnvoyFilters add
// come from generators of their own: addedClusters, addedListeners and extensions.
type patching struct {
	*patch.Pass
	clusters  *cluster.Generator
	listeners *listener.Generator
	routes    *route.Generator
}

type patchAll func(v *view.View, names snapshot.PatchList, list []*resource.Resource) []*resource.Resource

// clusterPatches returns the address of the list of cluster patches in n.
func clusterPatches(n *snapshot.PatchNames) *snapshot.PatchList { return &n.Clusters }

// listenerPatches returns the address of the list of listener patches in n.
func listenerPatches(n *snapshot.PatchNames) *snapshot.PatchList { return &n.Listeners }

// wrapAll returns g with patches applied to the output of All and Update by apply. names selects
// the list of patches that the output depends on. An edit of one of these patches makes Update
// return false (unknown difference) and Touched return true. The Scope includes the list. Update,
// Touched and Scope stay nil if they are.
func (p patching) wrapAll(g view.Generator, names func(*snapshot.PatchNames) *snapshot.PatchList,
	apply patchAll) view.Generator {
	of := func(v *view.View) snapshot.PatchList {
		n := v.Key.EnvoyFilterPatches
		return *names(&n)
	}
	inner := g
	g.All = func(v *view.View) []*resource.Resource { return apply(v, of(v), inner.All(v)) }
	if inner.Update != nil {
		g.Update = func(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
			if patch.Edited(of(v), d) {
				return resource.Diff{}, false
			}
			diff, ok := inner.Update(old, v, d)
			if !ok {
				return resource.Diff{}, false
			}
			return patch.Since(diff, apply(v, of(v), diff.Updated)), true
		}
	}
	if inner.Touched != nil {
		g.Touched = func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
			return patch.Edited(of(v), d) || inner.Touched(v, s, d)
		}
	}
	if inner.Scope != nil {
		g.Scope = func(k view.Key) view.Key {
			scope := inner.Scope(k)
			*names(&scope.EnvoyFilterPatches) = *names(&k.EnvoyFilterPatches)
			return scope
		}
	}
	return g
}

// wrapRoutes returns g, the generator of RouteConfigurations, with patches applied. If a patch of
// RouteConfigurations was edited, all names that proxies subscribe to are affected. The Scope
// includes the list of these patches. Named, Affected and Scope of g must not be nil.
func (p patching) wrapRoutes(g view.Generator) view.Generator {
	inner := g
	g.Named = func(v *view.View, name string) *resource.Resource {
		return p.Routes(v, v.Key.EnvoyFilterPatches.Routes, inner.Named(v, name))
	}
	g.Affected = func(old, v *view.View, d snapshot.Delta, names []string) []string {
		if patch.Edited(v.Key.EnvoyFilterPatches.Routes, d) {
			return names
		}
		return inner.Affected(old, v, d, names)
	}
	g.Scope = func(k view.Key) view.Key {
		scope := inner.Scope(k)
		scope.EnvoyFilterPatches.Routes = k.EnvoyFilterPatches.Routes
		return scope
	}
	return g
}

// addedClusters returns the generator of the clusters that patches add, which regenerates all of
// them after any relevant change. Views without cluster patches have equal Scopes and share its
// empty output; the Scope of others is the whole Key.
func (p patching) addedClusters() view.Generator {
	return view.Generator{
		TypeURL: api.ClusterType,
		All: func(v *view.View) []*resource.Resource {
			return p.AddedClusters(v, v.Key.EnvoyFilterPatches.Clusters,
				func() []*resource.Resource { return p.clusters.All(v) })
		},
		Scope: func(k view.Key) view.Key {
			if k.EnvoyFilterPatches.Clusters == "" {
				return view.Key{}
			}
			return k
		},
	}
}

// addedListeners returns the generator of the listeners that patches add, which regenerates all of
// them after any relevant change. Views without listener patches have equal Scopes and share its
// empty output; the Scope of others is the whole Key.
func (p patching) addedListeners() view.Generator {
	return view.Generator{
		TypeURL: api.ListenerType,
		All: func(v *view.View) []*resource.Resource {
			return p.AddedListeners(
				v,
				v.Key.EnvoyFilterPatches.Listeners,
				func() []*resource.Resource { return p.listeners.All(v) },
			)
		},
		Scope: func(k view.Key) view.Key {
			if k.EnvoyFilterPatches.Listeners == "" {
				return view.Key{}
			}
			return k
		},
	}
}

// extensions returns the generator of the extension configs (ECDS) that patches define. An edit of
// one of these patches affects all names; no other change affects any. Its Scope is the proxy's
// type, namespace and list of these patches.
func (p patching) extensions() view.Generator {
	return view.Generator{
		TypeURL: api.ExtensionType,
		Named: func(v *view.View, name string) *resource.Resource {
			return p.Extension(v, v.Key.EnvoyFilterPatches.Extensions, name)
		},
		Affected: func(_, v *view.View, d snapshot.Delta, names []string) []string {
			if patch.Edited(v.Key.EnvoyFilterPatches.Extensions, d) {
				return names
			}
			return nil
		},
		Touched: func(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
			return patch.Edited(v.Key.EnvoyFilterPatches.Extensions, d)
		},
		Scope: func(k view.Key) view.Key {
			scope := view.Key{Type: k.Type, Namespace: k.Namespace}
			scope.EnvoyFilterPatches.Extensions = k.EnvoyFilterPatches.Extensions
			return scope
		},
	}
}

// problems returns the Problems of the EnvoyFilter patches of a View that could not be applied, or
// had no effect. It generates all clusters and listeners of the View to find them. It returns nil,
// without generating anything, if the View has no patches.
func (p patching) problems(v *view.View) []config.Problem {
	if v.Key.EnvoyFilterPatches == (snapshot.PatchNames{}) {
		return nil // generating everything for no patch is expensive
	}
	return p.Problems(v, v.Key.EnvoyFilterPatches, patch.Generated{
		Clusters: p.clusters.All(v), Listeners: p.listeners.All(v),
		Route: func(name string) *resource.Resource { return p.routes.Named(v, name) },
	})
}
