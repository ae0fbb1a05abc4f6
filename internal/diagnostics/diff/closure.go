package diff

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// closure is the output of one generator of clusters or listeners for a scope, with the resources
// to which these and their references refer by name. Classes whose generators have the same outputs
// share it: most classes of a namespace differ only in what they serve. It is immutable.
type closure struct {
	resources resources
	// used are the outputs in which names were looked up, by generator.
	used map[int]*output
}

// closuresOf returns the closures whose union is the resources of a class, one for each generator
// of clusters or listeners, in their order. If two of them have a resource of the same name, the
// first one counts. It adds the class to t.classes, and first empties the caches if they have more
// than maxCached resources.
func (t *translation) closuresOf(k view.Key) []*closure {
	if t.cached > maxCached {
		clear(t.outputs)
		clear(t.closures)
		t.references.empty()
		t.cached = 0
		t.emptied++
	}
	outputs := make([]*output, len(t.generators))
	for i := range t.generators {
		outputs[i] = t.outputOf(i, k)
	}
	var list []*closure
	for i := range t.generators {
		if typeURL := t.generators[i].TypeURL; typeURL == api.ClusterType || typeURL == api.ListenerType {
			list = append(list, t.closureOf(i, outputs))
		}
	}
	t.classes[k] = true
	return list
}

// closureOf returns the closure of generator i for a class with these outputs: all resources of the
// generator, and the resources that they refer to. It reuses a cached closure that fits the
// outputs, and otherwise caches a new one. Names without a resource are skipped.
func (t *translation) closureOf(i int, outputs []*output) *closure {
	for _, c := range t.closures[outputs[i]] {
		if c.fits(outputs) {
			return c
		}
	}
	c := &closure{resources: resources{}, used: map[int]*output{}}
	var pending []resourceName
	add := func(r *resource.Resource) {
		n := resourceName{r.TypeURL, r.Name}
		if c.resources[n] == nil {
			c.resources[n] = r
			pending = append(pending, t.references.namesIn(r)...)
		}
	}
	for _, r := range t.allOf(i, outputs[i]) {
		add(r)
	}
	for len(pending) > 0 {
		n := pending[0]
		pending = pending[1:]
		if c.resources[n] != nil {
			continue
		}
		if r := t.lookup(outputs, n, c.used); r != nil {
			add(r)
		}
	}
	t.closures[outputs[i]] = append(t.closures[outputs[i]], c)
	t.cached += len(c.resources)
	return c
}

// fits reports whether a class with these outputs has the closure: all outputs in which names were
// looked up are among them.
func (c *closure) fits(outputs []*output) bool {
	for i, o := range c.used {
		if outputs[i] != o {
			return false
		}
	}
	return true
}

// closurePair are the closures of one generator before and after.
type closurePair struct{ before, after *closure }

// differingNames returns the names whose resources differ between the closures of a pair, or that
// only one of them has. A name is included once, in no particular order. The result is cached, so
// it must not be modified.
func (c *comparison) differingNames(p closurePair) []resourceName {
	names, known := c.differing[p]
	if known {
		return names
	}
	for n, b := range p.before.resources {
		if a := p.after.resources[n]; isChanged(b, a) {
			names = append(names, n)
		}
	}
	for n := range p.after.resources {
		if p.before.resources[n] == nil {
			names = append(names, n)
		}
	}
	c.differing[p] = names
	return names
}

// isChanged reports whether two resources, of which one may be nil, differ. Two nil resources are
// equal.
func isChanged(before, after *resource.Resource) bool {
	return before != after && (before == nil || after == nil || before.Version != after.Version)
}

// compareClasses returns the resources that differ between the classes before and after the change,
// in push order and by name. If several closures of a class have a resource of the same name, only
// the first one's is compared.
func (c *comparison) compareClasses(p classPair) []difference {
	before, after := c.before.closuresOf(p.before), c.after.closuresOf(p.after)
	if n := c.before.emptied + c.after.emptied; n != c.emptied {
		clear(c.differing) // it would keep the removed closures in memory
		c.emptied = n
	}
	var list []difference
	seen := map[resourceName]bool{}
	for i := range before {
		for _, n := range c.differingNames(closurePair{before[i], after[i]}) {
			if seen[n] {
				continue
			}
			seen[n] = true
			if d := (difference{findResource(before, n), findResource(after, n)}); isChanged(d.before, d.after) {
				list = append(list, d)
			}
		}
	}
	sortDifferences(list)
	return list
}

// findResource returns the resource with the name n of the first closure that has one, or nil.
func findResource(list []*closure, n resourceName) *resource.Resource {
	for _, c := range list {
		if r := c.resources[n]; r != nil {
			return r
		}
	}
	return nil
}
