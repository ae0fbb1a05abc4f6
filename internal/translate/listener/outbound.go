package listener

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
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
// affected ones are replanned (replan).
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

// change is the services of an egress listener whose addresses must be replanned: their previous
// and their new inputs.
type change struct{ before, after []serviceInput }

// Above these numbers of changes, everything is replanned.
const (
	mostServices = 64
	mostRules    = 16
)

// since returns the changes from was, an older input of the same class, to in, for each egress
// listener. ok is false if everything must be replanned: other settings changed, or too many rules
// or services. It also derives the order of the services (egressInput.order) from the older one.
func (in *outboundInput) since(v *view.View, was *outboundInput) (changes []change, ok bool) {
	if in.listenerContext != was.listenerContext || in.sidecar != was.sidecar || in.unknown != was.unknown ||
		len(in.egress) != len(was.egress) {
		return nil, false
	}
	differs := map[mesh.Hostname]bool{}
	for i := range in.egress {
		in.egress[i].addDiffering(&was.egress[i], differs)
	}
	moved := movedTargets(was.targets, in.targets)
	maps.Copy(moved, differs)
	for i := range in.egress {
		e, old := &in.egress[i], &was.egress[i]
		rules := changedRules(v, old.rules, e.rules, moved)
		if len(rules) > mostRules {
			return nil, false
		}
		c, ok := e.since(old, differs, func(host mesh.Hostname) bool {
			return slices.ContainsFunc(rules, func(vs *snapshot.VirtualService) bool { return matchesHost(vs, host) })
		})
		if !ok {
			return nil, false
		}
		changes = append(changes, c)
	}
	return changes, true
}

// movedTargets returns the hosts that are in only one of two lists of targets, or whose service or
// DestinationRule differs between them. The result is empty, never nil, if there are none.
func movedTargets(was, is []target) map[mesh.Hostname]bool {
	moved := map[mesh.Hostname]bool{}
	if slices.Equal(was, is) {
		return moved
	}
	old := make(map[target]bool, len(was))
	for _, t := range was {
		old[t] = true
	}
	for _, t := range is {
		if !old[t] {
			moved[t.host] = true
		}
		delete(old, t)
	}
	for t := range old {
		moved[t.host] = true
	}
	return moved
}

// changedRules returns the VirtualServices that are in only one of the lists was and is, and the
// VirtualServices of is that reference a host in moved. It returns nil if there are none.
func changedRules(
	v *view.View,
	was, is []*snapshot.VirtualService,
	moved map[mesh.Hostname]bool,
) []*snapshot.VirtualService {
	if len(moved) == 0 && slices.Equal(was, is) {
		return nil
	}
	there := make(map[*snapshot.VirtualService]bool, len(was))
	for _, vs := range was {
		there[vs] = true
	}
	var list []*snapshot.VirtualService
	for _, vs := range is {
		if !there[vs] || references(v, vs, moved) {
			list = append(list, vs)
		}
		delete(there, vs)
	}
	for _, vs := range was {
		if there[vs] {
			list = append(list, vs)
		}
	}
	return list
}

// references reports whether a TCP or TLS route of a VirtualService has one of the hosts as
// destination, after aliases are followed.
func references(v *view.View, vs *snapshot.VirtualService, hosts map[mesh.Hostname]bool) bool {
	matches := func(d *networking.RouteDestination) bool {
		return hosts[destination.Host(v, vs.ResolveHost(d.GetDestination().GetHost()))]
	}
	return len(hosts) > 0 &&
		(slices.ContainsFunc(
			vs.Spec.GetTcp(),
			func(r *networking.TCPRoute) bool { return slices.ContainsFunc(r.GetRoute(), matches) },
		) ||
			slices.ContainsFunc(
				vs.Spec.GetTls(),
				func(r *networking.TLSRoute) bool { return slices.ContainsFunc(r.GetRoute(), matches) },
			))
}

// addDiffering adds to the set into the hosts whose service, or its other inputs, changed from old
// to e, appeared or disappeared. Both lists must be sorted by host.
func (e *egressInput) addDiffering(old *egressInput, into map[mesh.Hostname]bool) {
	a, b := old.services, e.services
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].service.Host < b[0].service.Host:
			into[a[0].service.Host], a = true, a[1:]
		case len(a) == 0 || b[0].service.Host < a[0].service.Host:
			into[b[0].service.Host], b = true, b[1:]
		default:
			if a[0] != b[0] {
				into[a[0].service.Host] = true
			}
			a, b = a[1:], b[1:]
		}
	}
}

// since returns the services that changed since old, by differs, or for which routed returns true:
// as they were before and as they are after. It also derives the order of all services. ok is false
// if everything must be replanned: more than mostServices changed, one is an alias, or the listener
// is an HTTP proxy.
func (e *egressInput) since(
	old *egressInput,
	differs map[mesh.Hostname]bool,
	routed func(mesh.Hostname) bool,
) (c change, ok bool) {
	// by index in old.services: the index of an unchanged service in e.services, otherwise -1
	at := make([]int32, len(old.services))
	var after []int32
	for i, j := 0, 0; i < len(old.services) || j < len(e.services); {
		switch {
		case j == len(e.services) || i < len(old.services) && old.services[i].service.Host < e.services[j].service.Host:
			c.before, at[i] = append(c.before, old.services[i]), -1
			i++
		case i == len(old.services) || e.services[j].service.Host < old.services[i].service.Host:
			after = append(after, int32(j))
			j++
		default:
			host := e.services[j].service.Host
			if at[i] = int32(j); differs[host] || routed(host) {
				c.before, after, at[i] = append(c.before, old.services[i]), append(after, int32(j)), -1
			}
			i, j = i+1, j+1
		}
		if len(c.before)+len(after) > mostServices {
			return change{}, false
		}
	}
	for _, j := range after {
		c.after = append(c.after, e.services[j])
	}
	alias := func(s serviceInput) bool { return s.service.Resolution == mesh.Alias }
	if slices.ContainsFunc(c.before, alias) || slices.ContainsFunc(c.after, alias) {
		return change{}, false // Aliases change the names of other services.
	}
	if isHTTPProxy(e.listener) && len(c.before)+len(c.after) > 0 {
		return change{}, false // The listener uses the first of all services.
	}
	e.mergeOrder(old, at, after)
	return c, true
}

// mergeOrder derives e.order from the order of an older list. at has, for each of the older
// services, its index in e; -1 for changed ones. after has the indexes of changed services in e,
// and is sorted in place.
func (e *egressInput) mergeOrder(old *egressInput, at, after []int32) {
	slices.SortFunc(after, e.compareAge)
	e.order = make([]int32, 0, len(e.services))
	for _, i := range old.order {
		now := at[i]
		if now < 0 {
			continue
		}
		for len(after) > 0 && e.compareAge(after[0], now) < 0 {
			e.order, after = append(e.order, after[0]), after[1:]
		}
		e.order = append(e.order, now)
	}
	e.order = append(e.order, after...)
}
