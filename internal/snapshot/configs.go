package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// config takes up one event about an object. An object with the hash that is known stays as it is: metadata, status
// and resync stop here.
func (e *edit) config(op mesh.Op, c *config.Config) {
	old := e.configs.Get(c.Key)
	switch {
	case op == mesh.Delete && old == nil, op == mesh.Upsert && old != nil && old.Hash == c.Hash:
		return
	case op == mesh.Delete:
		e.configs.Delete(c.Key)
	default:
		e.configs.Set(c.Key, c)
	}
	add(&e.objects, c.Key)
	if !comesOtherwise(c.Kind) {
		add(&e.delta.Configs, c.Key)
	}
}

// comesOtherwise says that what objects of the kind mean comes from a registry, as services, shards and workloads, or as objects
// of other kinds. The objects themselves are kept for people to look at, and for their status; a change of one is no difference by
// itself.
func comesOtherwise(kind api.Kind) bool {
	return kind == api.ServiceEntry || kind == api.WorkloadEntry || kind == api.Ingress || kind == api.IngressClass
}

func compareConfigs(a, b *config.Config) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// indexKind brings the sorted list of one kind up to date.
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
	kept := withoutConfigs(e.next.kinds[kind], gone)
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

// withoutConfigs gives a list of one kind without some objects; both are sorted.
func withoutConfigs(list []*config.Config, gone []config.Key) []*config.Config {
	kept := make([]*config.Config, 0, len(list))
	for _, k := range gone {
		at, found := slices.BinarySearchFunc(list, k, func(c *config.Config, k config.Key) int { return c.Key.Compare(k) })
		if kept = append(kept, list[:at]...); found {
			at++
		}
		list = list[at:]
	}
	return append(kept, list...)
}

// problemScope is whose list of Problems it is.
type problemScope struct{ source, scope string }

func (e *edit) setProblems(source string, p *mesh.Problems) {
	k := problemScope{source, p.Scope}
	if slices.Equal(e.Builder.problems[k], p.List) {
		return
	}
	e.setProblemList(k, p.List)
	e.problems = true
}

func sortedProblems(scopes map[problemScope][]config.Problem) []config.Problem {
	var all []config.Problem
	for _, list := range scopes {
		all = append(all, list...)
	}
	slices.SortFunc(all, config.Problem.Compare)
	return slices.Compact(all)
}
