package listener

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// outbound is the outbound listeners of a class, planned and encoded. It keeps only the parts of
// the plan that are needed later, because there may be as many classes as namespaces.
type outbound struct {
	input     *outboundInput
	resources []*resource.Resource // sorted by name
	// extensions are the extension configs that chains reference, by name.
	extensions map[string]*resource.Resource
	// waiting are the names of the extension configs by the name of their listener.
	waiting   map[string][]string
	conflicts []Conflict
	problems  []located
}

// outboundKey identifies the outbound listeners of a class that a Generator derived from a
// snapshot.
type outboundKey struct {
	g     *Generator
	class class
}

// outbound returns the outbound listeners of a View's class. They are planned once per snapshot,
// and reused from the previous one if their inputs are equal. If few inputs changed, only the
// affected ones are replanned (replan). The result is stored in g.newest for the next snapshot.
func (g *Generator) outbound(v *view.View) *outbound {
	return snapshot.Derive(v.Snapshot.Derived, outboundKey{g, classOf(v.Key)}, func() *outbound {
		in := g.inputFor(v)
		was := g.newest.Get(in.class)
		if was != nil && was.input.equal(in) {
			return was
		}
		o := g.replan(v, was, in)
		if o == nil {
			p := planOutbound(v, in)
			g.planned.Add(1)
			g.places.Add(uint64(len(p.specs)))
			o = &outbound{
				input:      in,
				resources:  g.resources(p.specs, in.listenerContext),
				extensions: g.extensionsOf(p.specs, in.listenerContext),
				waiting:    extensionNames(p.specs),
				conflicts:  p.conflicts, problems: p.problems,
			}
		}
		g.newest.Set(in.class, o)
		return o
	})
}

// replan returns the outbound listeners of a class, derived from was: only listeners at the
// addresses of services that changed, or whose rules changed, are regenerated. It returns nil if
// was is nil or too much changed (since). was is not modified.
func (g *Generator) replan(v *view.View, was *outbound, in *outboundInput) *outbound {
	if was == nil {
		return nil
	}
	changes, ok := in.since(v, was.input)
	if !ok {
		return nil
	}
	only := map[listenAddress]bool{}
	visit := newPlanner(v, in)
	visit.visited = only
	for i := range changes {
		visit.planServices(&was.input.egress[i], slices.Values(changes[i].before))
		visit.planServices(&in.egress[i], slices.Values(changes[i].after))
	}
	p := newPlanner(v, in)
	p.only, p.ports = only, map[uint32]bool{}
	names := make(map[string]bool, len(only))
	for at := range only {
		p.ports[at.port] = p.ports[at.port] || at.address == p.family.wildcard[0] || config.IsSocket(at.address)
		names[at.name()] = true
	}
	for i := range in.egress {
		p.planServices(&in.egress[i], in.egress[i].byAge())
	}
	plan := p.finish()
	g.places.Add(uint64(len(only)))
	return g.joined(was, in, plan, names)
}

// joined returns was with replanned listeners merged into it; was is not modified. names has the
// names of the listeners that were replanned. They are removed unless plan has them.
func (g *Generator) joined(was *outbound, in *outboundInput, plan *outboundPlan, names map[string]bool) *outbound {
	o := &outbound{
		input: in,
		resources: merged(
			was.resources,
			g.resources(plan.specs, in.listenerContext),
			func(r *resource.Resource) string { return r.Name },
			names,
		),
		conflicts: merged(was.conflicts, plan.conflicts, func(c Conflict) string { return c.Listener }, names),
		problems:  merged(was.problems, plan.problems, func(l located) string { return l.listener }, names),
	}
	o.extensions, o.waiting = was.extensions, was.waiting
	now := extensionNames(plan.specs)
	stale := func(listener string) bool { return was.waiting[listener] != nil }
	if len(now) == 0 && !anyOf(names, stale) {
		return o
	}
	o.extensions, o.waiting = maps.Clone(was.extensions), maps.Clone(was.waiting)
	if o.extensions == nil {
		o.extensions, o.waiting = map[string]*resource.Resource{}, map[string][]string{}
	}
	for n := range names {
		for _, extension := range was.waiting[n] {
			delete(o.extensions, extension)
		}
		delete(o.waiting, n)
	}
	maps.Copy(o.extensions, g.extensionsOf(plan.specs, in.listenerContext))
	maps.Copy(o.waiting, now)
	return o
}

// anyOf reports whether holds returns true for a key of set.
func anyOf(set map[string]bool, holds func(string) bool) bool {
	for s := range set {
		if holds(s) {
			return true
		}
	}
	return false
}

// merged returns old, which is sorted by name, with its elements named in names replaced by others,
// which is sorted too. It returns nil for an empty result.
func merged[T any](old, others []T, nameOf func(T) string, names map[string]bool) []T {
	list := make([]T, 0, len(old)+len(others))
	for _, x := range old {
		n := nameOf(x)
		if names[n] {
			continue
		}
		for len(others) > 0 && nameOf(others[0]) < n {
			list, others = append(list, others[0]), others[1:]
		}
		list = append(list, x)
	}
	if list = append(list, others...); len(list) == 0 {
		return nil
	}
	return list
}
