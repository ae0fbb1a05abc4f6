package namespaces

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Filter.
type Options struct {
	// Sources are the names of the sources whose objects are filtered: the sources that read the
	// API server with the Namespaces. Objects of other sources (files, config over xDS) pass
	// through, as in Istio. If empty, objects of all sources are filtered once there is any
	// Namespace. Files often contain no Namespaces, and then all their objects are used.
	Sources []string
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
}

// Filter removes objects of unselected namespaces. It must precede all other converters, and be
// used by one goroutine at a time.
type Filter struct {
	options    Options
	guard      registry.Guard
	selectors  []labels.Selector // nil selects every namespace
	namespaces map[string]*namespace
	present    int // the number of namespaces with a Namespace object
	wrong      []config.Problem
}

// namespace is a namespace that has a Namespace object or at least one other object.
type namespace struct {
	labels   labels.Set // nil if there is no Namespace object
	selected bool
	objects  map[config.Key]object
}

var _ registry.Converter = (*Filter)(nil)

// New returns a Filter that passes everything until Settings contain selectors.
func New(o Options) *Filter {
	return &Filter{
		options:    o,
		guard:      registry.Guard{Recovery: o.Recovery, Source: "namespaces"},
		namespaces: map[string]*namespace{},
	}
}

// Convert removes the objects of unselected namespaces from the batch. It inserts upserts of all
// objects of namespaces that become selected, and deletions for namespaces that become unselected.
// Namespaces, cluster-wide objects, objects of sources that are not filtered, and all events
// without an object pass.
func (f *Filter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Settings != nil && e.Settings.Mesh != nil:
			out = append(out, e)
			out = f.setSelectors(out, e.Source, e.Settings.Mesh.GetDiscoverySelectors())
		case e.Config == nil || !f.filtersSource(e.Source):
			out = append(out, e)
		case e.Config.Kind == api.Namespace:
			out = append(out, e)
			out = f.setNamespace(out, e.Op, e.Config)
		case e.Config.Namespace == "":
			out = append(out, e)
		default:
			var packed object
			read := true
			if e.Op != mesh.Delete {
				out, read = f.guard.Try(
					out,
					registry.Read,
					e.Config.Key,
					e.Config.Origin,
					func() { packed = newObject(e) },
				)
			}
			if read {
				out = f.setObject(out, e, packed)
			}
		}
	}
	return out
}

// filtersSource reports whether objects of the source are filtered. All are if Options.Sources is
// empty.
func (f *Filter) filtersSource(source string) bool {
	return len(f.options.Sources) == 0 || slices.Contains(f.options.Sources, source)
}

// setObject stores the object of an event, or deletes it, and appends the event if its namespace is
// selected. packed is the object in the form to store.
func (f *Filter) setObject(out mesh.Batch, e mesh.Event, packed object) mesh.Batch {
	n := f.namespaceState(e.Config.Namespace)
	if e.Op == mesh.Delete {
		delete(n.objects, e.Config.Key)
	} else {
		n.objects[e.Config.Key] = packed
	}
	f.removeIfEmpty(e.Config.Namespace, n)
	if n.selected {
		out = append(out, e)
	}
	return out
}

// setNamespace applies an event about a Namespace object, and appends the events of its selection
// if that changes. Unless Options.Sources is set, the first and the last Namespace object may
// change the selection of all.
func (f *Filter) setNamespace(out mesh.Batch, op mesh.Op, c *config.Config) mesh.Batch {
	n, before := f.namespaceState(c.Name), f.present
	if n.labels != nil {
		f.present--
	}
	n.labels = nil
	if op == mesh.Upsert {
		f.present++
		if n.labels = c.Labels; n.labels == nil {
			n.labels = labels.Set{}
		}
	}
	if len(f.options.Sources) == 0 && (before == 0) != (f.present == 0) {
		out = f.updateAll(out) // the first Namespace object was added, or the last one removed
	} else {
		out = f.updateSelection(out, n)
	}
	f.removeIfEmpty(c.Name, n)
	return out
}

// namespaceState returns the state of a namespace, and creates it if necessary. A new one is
// selected as if the namespace had no labels.
func (f *Filter) namespaceState(name string) *namespace {
	n := f.namespaces[name]
	if n == nil {
		n = &namespace{objects: map[config.Key]object{}}
		n.selected = f.selects(n)
		f.namespaces[name] = n
	}
	return n
}

// removeIfEmpty removes the state of a namespace that has neither a Namespace object nor other
// objects.
func (f *Filter) removeIfEmpty(name string, n *namespace) {
	if n.labels == nil && len(n.objects) == 0 {
		delete(f.namespaces, name)
	}
}

// selects reports whether a namespace must be selected. A namespace without a Namespace object has
// no labels, so selectors do not match it. All are selected without selectors, and without Sources
// also while there is no Namespace object at all.
func (f *Filter) selects(n *namespace) bool {
	if f.selectors == nil || len(f.options.Sources) == 0 && f.present == 0 {
		return true
	}
	return n.labels != nil &&
		slices.ContainsFunc(f.selectors, func(s labels.Selector) bool { return s.Matches(n.labels) })
}

// setSelectors replaces the selectors by list, and appends the events of changed selections. An
// empty list selects every namespace. If any selector is invalid, it keeps the previous selectors,
// as in Istio. It appends an event with the Problems, with source as Source, if they differ from
// the last ones; valid selectors clear them.
func (f *Filter) setSelectors(out mesh.Batch, source string, list []*meshconfig.LabelSelector) mesh.Batch {
	next, wrong := parseSelectors(list)
	if !slices.Equal(f.wrong, wrong) {
		f.wrong = wrong
		out = append(
			out,
			mesh.Event{Source: source, Problems: &mesh.Problems{Scope: "meshConfig.discoverySelectors", List: wrong}},
		)
	}
	if len(wrong) > 0 {
		return out
	}
	f.selectors = next
	return f.updateAll(out)
}

// updateAll updates the selection of all namespaces and appends the events that follow.
func (f *Filter) updateAll(out mesh.Batch) mesh.Batch {
	for _, name := range slices.Sorted(maps.Keys(f.namespaces)) {
		out = f.updateSelection(out, f.namespaces[name])
	}
	return out
}

// updateSelection updates the selection of a namespace. It appends upserts of all its objects if it
// became selected, and deletes if it became unselected.
func (f *Filter) updateSelection(out mesh.Batch, n *namespace) mesh.Batch {
	chosen := f.selects(n)
	if chosen == n.selected {
		return out
	}
	n.selected = chosen
	for _, key := range slices.SortedFunc(maps.Keys(n.objects), config.Key.Compare) {
		o := n.objects[key]
		if chosen {
			out = append(out, o.event())
		} else {
			out = append(out, mesh.Event{Op: mesh.Delete, Source: o.source,
				Config: &config.Config{Meta: config.Meta{Key: key}}})
		}
	}
	return out
}
