package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// applyConfig applies one event about a config object and adds a changed one to e.objects and to
// the Delta. It ignores the deletion of an unknown object, and an object whose Hash, generation and
// origin are unchanged, such as a change of metadata or status, or a resync. If only the generation
// or the origin differs, the object is replaced, but does not enter the Delta. Objects of converted
// kinds (isConvertedKind) do not enter the Delta either.
func (e *edit) applyConfig(op mesh.Op, c *config.Config) {
	old := e.configs.Get(c.Key)
	switch {
	case op == mesh.Upsert && old != nil && old.Hash == c.Hash &&
		(old.Generation != c.Generation || old.Origin != c.Origin):
		e.configs.Set(c.Key, c)
		add(&e.objects, c.Key)
		return
	case op == mesh.Delete && old == nil, op == mesh.Upsert && old != nil && old.Hash == c.Hash:
		return
	case op == mesh.Delete:
		e.configs.Delete(c.Key)
	default:
		e.configs.Set(c.Key, c)
	}
	add(&e.objects, c.Key)
	if !isConvertedKind(c.Kind) {
		add(&e.delta.Configs, c.Key)
	}
}

// isConvertedKind reports whether a registry converts objects of the kind to services, endpoints or
// objects of other kinds, such as ServiceEntry, Ingress or HTTPRoute. Such objects are stored for
// debug pages and status only; a change of one is not part of the Delta.
func isConvertedKind(kind api.Kind) bool {
	switch kind {
	case api.ServiceEntry, api.WorkloadEntry, api.Ingress, api.IngressClass,
		api.GatewayClass, api.KubernetesGateway, api.ListenerSet, api.HTTPRoute, api.GRPCRoute, api.TLSRoute,
		api.TCPRoute, api.UDPRoute, api.BackendTLSPolicy, api.XBackendTrafficPolicy, api.XMesh, api.XBackend,
		api.InferencePool:
		return true
	default:
		return false
	}
}

// Keeps reports whether snapshots contain the objects of a kind: the kinds of istio.io/api, the
// converted kinds, and ReferenceGrant. Objects of other kinds are only in what is made from them,
// such as services.
func Keeps(kind api.Kind) bool {
	info, known := api.Info(kind)
	return known && (info.Istio() || isConvertedKind(kind) || kind == api.ReferenceGrant)
}

// compareConfigs orders objects of one kind by namespace and name.
func compareConfigs(a, b *config.Config) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// indexKind updates the list of all objects of a kind, sorted by namespace and name, with the
// changed ones (e.objects). The old list remains unchanged.
func (e *edit) indexKind(kind api.Kind) {
	var now []*config.Config
	var gone []config.Key
	for k := range e.objects {
		if k.Kind != kind {
			continue
		}
		gone = append(gone, k)
		if c := e.next.configs.Get(k); c != nil {
			now = append(now, c)
		}
	}
	slices.SortFunc(gone, config.Key.Compare)
	slices.SortFunc(now, compareConfigs)
	kept := removeConfigs(e.next.kinds[kind], gone)
	list := make([]*config.Config, 0, len(kept)+len(now))
	for _, c := range now {
		at, _ := slices.BinarySearchFunc(kept, c, compareConfigs)
		list, kept = append(append(list, kept[:at]...), c), kept[at:]
	}
	e.next.kinds = maps.Clone(e.next.kinds)
	if e.next.kinds == nil {
		e.next.kinds = map[api.Kind][]*config.Config{}
	}
	e.next.kinds[kind] = append(list, kept...)
}

// removeConfigs returns a copy of list without the objects with the keys gone; keys that list lacks
// are ignored. Both must be sorted and of one kind.
func removeConfigs(list []*config.Config, gone []config.Key) []*config.Config {
	kept := make([]*config.Config, 0, len(list))
	for _, k := range gone {
		at, found := slices.BinarySearchFunc(
			list,
			k,
			func(c *config.Config, k config.Key) int { return c.Key.Compare(k) },
		)
		if kept = append(kept, list[:at]...); found {
			at++
		}
		list = list[at:]
	}
	return append(kept, list...)
}

// problemScope identifies one list of Problems: the source that reports it, and the scope within
// the source.
type problemScope struct{ source, scope string }

// setProblems replaces the list of Problems of one source and scope, and marks the Problems of the
// snapshot as changed. An empty list removes it. It does nothing if the list is unchanged.
func (e *edit) setProblems(source string, p *mesh.Problems) {
	k := problemScope{source, p.Scope}
	if slices.Equal(e.Builder.problems[k], p.List) {
		return
	}
	e.setProblemList(k, p.List)
	e.problems = true
}

// sortedProblems returns the Problems of all scopes, sorted and without duplicates.
func sortedProblems(scopes map[problemScope][]config.Problem) []config.Problem {
	var all []config.Problem
	for _, list := range scopes {
		all = append(all, list...)
	}
	slices.SortFunc(all, config.Problem.Compare)
	return slices.Compact(all)
}
