package listener

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// outbound is the outbound listeners of a class, planned and made. Of the plan only that is kept which is still needed: there
// may be as many classes as namespaces.
type outbound struct {
	input     *outboundInput
	resources []*resource.Resource // sorted by name
	// extensions are what chains of them wait for, by name.
	extensions map[string]*resource.Resource
	// waiting are the names of the extensions by that of their listener.
	waiting   map[string][]string
	conflicts []Conflict
	problems  []located
}

type outboundKey struct {
	g     *Generator
	class class
}

// outbound gives the outbound listeners of a View's class: once for a state of the mesh, and not anew if what they are
// made of is as it was.
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
				input: in, resources: g.resources(p.specs, in.around), extensions: g.extensionsOf(p.specs, in.around), waiting: waiting(p.specs),
				conflicts: p.conflicts, problems: p.problems,
			}
		}
		g.newest.Set(in.class, o)
		return o
	})
}

// replan gives the outbound listeners of a class with only those made anew that a change may have altered: at the places for
// which services that differ bid, or have bid. nil: too much differs, or there is nothing to begin with.
func (g *Generator) replan(v *view.View, was *outbound, in *outboundInput) *outbound {
	if was == nil {
		return nil
	}
	changes, ok := in.since(v, was.input)
	if !ok {
		return nil
	}
	only := map[place]bool{}
	visit := newPlanner(v, in)
	visit.visited = only
	for i := range changes {
		visit.listen(&was.input.egress[i], slices.Values(changes[i].before))
		visit.listen(&in.egress[i], slices.Values(changes[i].after))
	}
	p := newPlanner(v, in)
	p.only, p.ports = only, map[uint32]bool{}
	names := make(map[string]bool, len(only))
	for at := range only {
		p.ports[at.port] = p.ports[at.port] || at.address == p.family.wildcard[0] || isSocket(at.address)
		names[name(at.address, at.port)] = true
	}
	for i := range in.egress {
		p.listen(&in.egress[i], in.egress[i].byAge())
	}
	plan := p.finish()
	g.replanned.Add(1)
	g.places.Add(uint64(len(only)))
	return g.joined(was, in, plan, names)
}

// joined puts what was planned anew in the place of what those listeners were.
func (g *Generator) joined(was *outbound, in *outboundInput, plan *outboundPlan, names map[string]bool) *outbound {
	o := &outbound{
		input:     in,
		resources: merged(was.resources, g.resources(plan.specs, in.around), func(r *resource.Resource) string { return r.Name }, names),
		conflicts: merged(was.conflicts, plan.conflicts, func(c Conflict) string { return c.Listener }, names),
		problems:  merged(was.problems, plan.problems, func(l located) string { return l.listener }, names),
	}
	o.extensions, o.waiting = was.extensions, was.waiting
	now := waiting(plan.specs)
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
	maps.Copy(o.extensions, g.extensionsOf(plan.specs, in.around))
	maps.Copy(o.waiting, now)
	return o
}

func anyOf(set map[string]bool, holds func(string) bool) bool {
	for s := range set {
		if holds(s) {
			return true
		}
	}
	return false
}

// merged gives what of a list, sorted by name, is not of the names, and the others in their place.
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

// waiting gives the names of the extensions that listeners wait for, by the name of the listener; nil if there are none.
func waiting(specs []Spec) map[string][]string {
	var out map[string][]string
	for i := range specs {
		s := &specs[i]
		var names []string
		for _, c := range append(s.Chains[:len(s.Chains):len(s.Chains)], s.Default) {
			if c.TCP != nil && c.TCP.Discovered {
				names = append(names, c.Name)
			}
		}
		if names == nil {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[s.Name] = names
	}
	return out
}
