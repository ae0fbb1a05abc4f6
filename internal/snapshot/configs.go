package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
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
	if !comesAsService(c.Kind) {
		add(&e.delta.Configs, c.Key)
	}
}

// comesAsService says that what objects of the kind mean comes from a registry, as services, shards and workloads. The
// objects themselves are kept for people to look at; a change of one is no difference by itself.
func comesAsService(kind api.Kind) bool {
	return kind == api.ServiceEntry || kind == api.WorkloadEntry
}

func compareConfigs(a, b *config.Config) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// indexKind brings the sorted list of one kind up to date. A few changes are put in place; many are sorted afresh.
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
	drop := make(map[config.Key]bool, len(gone))
	for _, k := range gone {
		drop[k] = true
	}
	slices.SortFunc(now, compareConfigs)
	kept := make([]*config.Config, 0, len(e.next.kinds[kind])+len(now))
	for _, c := range e.next.kinds[kind] {
		if drop[c.Key] {
			continue
		}
		for len(now) > 0 && compareConfigs(now[0], c) < 0 {
			kept, now = append(kept, now[0]), now[1:]
		}
		kept = append(kept, c)
	}
	e.next.kinds = maps.Clone(e.next.kinds)
	if e.next.kinds == nil {
		e.next.kinds = map[api.Kind][]*config.Config{}
	}
	e.next.kinds[kind] = append(kept, now...)
}

// problemScope is whose list of Problems it is.
type problemScope struct{ source, scope string }

func (e *edit) setProblems(source string, p *mesh.Problems) {
	k := problemScope{source, p.Scope}
	if slices.Equal(e.Builder.problems[k], p.List) {
		return
	}
	if len(p.List) == 0 {
		delete(e.Builder.problems, k)
	} else {
		e.Builder.problems[k] = p.List
	}
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
