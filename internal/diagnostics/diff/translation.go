package diff

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// resourceName identifies a resource of a proxy.
type resourceName struct{ typeURL, name string }

// resources are all resources of one proxy.
type resources map[resourceName]*resource.Resource

// translation generates the resources of one snapshot. Outputs are kept by generator and scope, so
// proxies that share an output cost nothing. It must be used by one goroutine at a time.
type translation struct {
	snapshot   *snapshot.Snapshot
	generators []view.Generator
	references *referenceCache
	outputs    map[scope]*output
	// closures are the closures of each output of clusters or listeners.
	closures map[*output][]*closure
	// classes are the classes that were translated.
	classes map[view.Key]bool
	// cached is the number of resources in outputs and closures, and emptied how often these were
	// emptied.
	cached, emptied int
}

// maxCached limits the resources that a translation keeps. When it is reached, the caches are
// emptied.
const maxCached = 2_000_000

// scope is the part of a Key that the output of a generator depends on.
type scope struct {
	generator int
	key       view.Key
}

// output is the result of a generator for a scope.
type output struct {
	view  *view.View // nil before it is needed
	key   view.Key
	all   []*resource.Resource // nil before it is needed
	named map[string]*resource.Resource
}

// newTranslation returns a translation of s without cached outputs. r may be shared with other
// translations.
func newTranslation(s *snapshot.Snapshot, generators []view.Generator, r *referenceCache) *translation {
	return &translation{
		snapshot: s, generators: generators, references: r, outputs: map[scope]*output{},
		closures: map[*output][]*closure{},
		classes:  map[view.Key]bool{},
	}
}

// keyOf returns the Key of the proxy's class in this snapshot.
func (t *translation) keyOf(p *mesh.Proxy) view.Key { return view.KeyFor(t.snapshot, p) }

// viewOf returns the View of a class.
func (t *translation) viewOf(k view.Key) *view.View { return view.Build(t.snapshot, k) }

// resourcesOf returns the resources of a class: all clusters and listeners, and the resources that
// these and their references name. A name that no generator has is left out.
func (t *translation) resourcesOf(k view.Key) resources {
	list := resources{}
	for _, c := range t.closuresOf(k) {
		for n, r := range c.resources {
			if list[n] == nil {
				list[n] = r
			}
		}
	}
	return list
}

// outputOf returns the cached output of generator i for the scope of a class. It adds an empty one
// if there is none.
func (t *translation) outputOf(i int, k view.Key) *output {
	if scopeOf := t.generators[i].Scope; scopeOf != nil {
		k = scopeOf(k)
	}
	at := scope{i, k}
	o := t.outputs[at]
	if o == nil {
		o = &output{key: k, named: map[string]*resource.Resource{}}
		t.outputs[at] = o
	}
	return o
}

// allOf returns all resources of t.generators[i] in the scope of o, which must be that generator's
// output. The first call generates them, keeps them in o and adds their number to t.cached. It
// returns nil if the generator has no All: its type is subscribed by name.
func (t *translation) allOf(i int, o *output) []*resource.Resource {
	if g := &t.generators[i]; o.all == nil && g.All != nil {
		if o.all = g.All(t.viewIn(o)); o.all == nil {
			o.all = []*resource.Resource{}
		}
		t.cached += len(o.all)
	}
	return o.all
}

// lookup returns the resource with the name n from the generators of its type, or nil if none has
// it. outputs are the generators' outputs. It adds the outputs that it read to used, by generator.
// The result is cached.
func (t *translation) lookup(outputs []*output, n resourceName, used map[int]*output) *resource.Resource {
	for i := range t.generators {
		g, o := &t.generators[i], outputs[i]
		if g.TypeURL != n.typeURL || g.Named == nil {
			continue
		}
		used[i] = o
		r, known := o.named[n.name]
		if !known {
			r = g.Named(t.viewIn(o), n.name)
			o.named[n.name] = r
			t.cached++
		}
		if r != nil {
			return r
		}
	}
	return nil
}

// viewIn returns the View of an output's scope, which the first call builds.
func (t *translation) viewIn(o *output) *view.View {
	if o.view == nil {
		o.view = view.Build(t.snapshot, o.key)
	}
	return o.view
}
