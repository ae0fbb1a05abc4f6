package diff

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
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
	views      map[view.Key]*view.View
	all        map[scope][]*resource.Resource
	named      map[scope]map[string]*resource.Resource
	// classes are the classes that were translated.
	classes map[view.Key]bool
	// cached is the number of entries of the caches.
	cached int
}

// maxCached limits the entries of the caches of a translation: views, and names of resources. When
// it is reached, the caches are emptied.
const maxCached = 500_000

// scope is the part of a Key that the output of a generator depends on.
type scope struct {
	generator int
	key       view.Key
}

func newTranslation(s *snapshot.Snapshot, generators []view.Generator, r *referenceCache) *translation {
	return &translation{
		snapshot: s, generators: generators, references: r,
		views: map[view.Key]*view.View{}, all: map[scope][]*resource.Resource{},
		named: map[scope]map[string]*resource.Resource{}, classes: map[view.Key]bool{},
	}
}

// keyOf returns the class of a proxy.
func (t *translation) keyOf(p *mesh.Proxy) view.Key { return view.KeyFor(t.snapshot, p) }

// resourcesOf returns the resources of a class: all clusters and listeners, and what these and
// their references refer to by name.
func (t *translation) resourcesOf(k view.Key) resources {
	if t.cached > maxCached {
		t.emptyCaches()
	}
	list := resources{}
	var pending []resourceName
	add := func(r *resource.Resource) {
		n := resourceName{r.TypeURL, r.Name}
		if list[n] == nil {
			list[n] = r
			pending = append(pending, t.references.namesIn(r)...)
		}
	}
	for _, typeURL := range []string{api.ClusterType, api.ListenerType} {
		for _, r := range t.allOf(k, typeURL) {
			add(r)
		}
	}
	for len(pending) > 0 {
		n := pending[0]
		pending = pending[1:]
		if list[n] != nil {
			continue
		}
		if r := t.lookup(k, n); r != nil {
			add(r)
		}
	}
	t.classes[k] = true
	return list
}

func (t *translation) emptyCaches() {
	clear(t.views)
	clear(t.all)
	clear(t.named)
	t.references.empty()
	t.cached = 0
}

// allOf returns the resources of a type that proxies subscribe to as a whole.
func (t *translation) allOf(k view.Key, typeURL string) []*resource.Resource {
	var list []*resource.Resource
	for i := range t.generators {
		g := &t.generators[i]
		if g.TypeURL != typeURL || g.All == nil {
			continue
		}
		at := scopeOf(i, g, k)
		output, known := t.all[at]
		if !known {
			output = g.All(t.viewOf(at.key))
			t.all[at] = output
			t.cached += len(output)
		}
		list = append(list, output...)
	}
	return list
}

// lookup returns the resource with a name, or nil if no generator has it.
func (t *translation) lookup(k view.Key, n resourceName) *resource.Resource {
	for i := range t.generators {
		g := &t.generators[i]
		if g.TypeURL != n.typeURL || g.Named == nil {
			continue
		}
		at := scopeOf(i, g, k)
		if t.named[at] == nil {
			t.named[at] = map[string]*resource.Resource{}
		}
		r, known := t.named[at][n.name]
		if !known {
			r = g.Named(t.viewOf(at.key), n.name)
			t.named[at][n.name] = r
			t.cached++
		}
		if r != nil {
			return r
		}
	}
	return nil
}

func (t *translation) viewOf(k view.Key) *view.View {
	v := t.views[k]
	if v == nil {
		v = view.Build(t.snapshot, k)
		t.views[k] = v
		t.cached += len(v.Services)
	}
	return v
}

// scopeOf returns the scope of a generator's output for a class.
func scopeOf(i int, g *view.Generator, k view.Key) scope {
	if g.Scope != nil {
		k = g.Scope(k)
	}
	return scope{i, k}
}
