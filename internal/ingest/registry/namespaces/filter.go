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

// Options say whose objects are looked at.
type Options struct {
	// Sources are the names of the sources whose objects are filtered: those that read the API server of the cluster whose
	// Namespaces they are. Objects of other sources (files, config over xDS) pass through, as in Istio. None: all are filtered, as
	// soon as there is any Namespace: files often have none, and then nothing in them is meant to be left out.
	Sources []string
	// Recovery confines panics to the object that causes them. If nil, they pass.
	Recovery *recovery.Recorder
}

// Filter holds objects back. It goes before every other converter, and is used by one goroutine.
type Filter struct {
	options    Options
	guard      registry.Guard
	selectors  []labels.Selector // nil: every namespace is chosen
	namespaces map[string]*namespace
	present    int // of them have a Namespace
	wrong      []config.Problem
}

// namespace is one of which there is the Namespace or at least an object.
type namespace struct {
	labels  labels.Set // nil: there is no Namespace
	chosen  bool
	objects map[config.Key]object
}

var _ registry.Converter = (*Filter)(nil)

// New makes a Filter that lets everything through until Settings have selectors.
func New(o Options) *Filter {
	return &Filter{options: o, guard: registry.Guard{Recovery: o.Recovery, Source: "namespaces"}, namespaces: map[string]*namespace{}}
}

// Convert takes the objects out of the batch that are not to be seen, and puts those in that come to be seen, or cease to.
func (f *Filter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Settings != nil && e.Settings.Mesh != nil:
			out = append(out, e)
			out = f.setSelectors(out, e.Source, e.Settings.Mesh.GetDiscoverySelectors())
		case e.Config == nil || !f.filters(e.Source):
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
				out, read = f.guard.Try(out, registry.Read, e.Config.Key, e.Config.Origin, func() { packed = pack(e) })
			}
			if read {
				out = f.setObject(out, e, packed)
			}
		}
	}
	return out
}

func (f *Filter) filters(source string) bool {
	return len(f.options.Sources) == 0 || slices.Contains(f.options.Sources, source)
}

// setObject takes up an object, and lets it through if its namespace is chosen.
func (f *Filter) setObject(out mesh.Batch, e mesh.Event, packed object) mesh.Batch {
	n := f.namespace(e.Config.Namespace)
	if e.Op == mesh.Delete {
		delete(n.objects, e.Config.Key)
	} else {
		n.objects[e.Config.Key] = packed
	}
	f.forget(e.Config.Namespace, n)
	if n.chosen {
		out = append(out, e)
	}
	return out
}

func (f *Filter) setNamespace(out mesh.Batch, op mesh.Op, c *config.Config) mesh.Batch {
	n, before := f.namespace(c.Name), f.present
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
		out = f.turnAll(out) // the first one, or the last
	} else {
		out = f.turn(out, n)
	}
	f.forget(c.Name, n)
	return out
}

// namespace gives what is known of a namespace, which may be nothing yet.
func (f *Filter) namespace(name string) *namespace {
	n := f.namespaces[name]
	if n == nil {
		n = &namespace{objects: map[config.Key]object{}}
		n.chosen = f.chooses(n)
		f.namespaces[name] = n
	}
	return n
}

// forget drops a namespace of which there is nothing any more.
func (f *Filter) forget(name string, n *namespace) {
	if n.labels == nil && len(n.objects) == 0 {
		delete(f.namespaces, name)
	}
}

// chooses says whether a namespace is to be looked at. One whose Namespace is not there, or not yet, has no labels to choose
// it by.
func (f *Filter) chooses(n *namespace) bool {
	if f.selectors == nil || len(f.options.Sources) == 0 && f.present == 0 {
		return true
	}
	return n.labels != nil && slices.ContainsFunc(f.selectors, func(s labels.Selector) bool { return s.Matches(n.labels) })
}

// setSelectors takes up other selectors. Of a list in which one cannot be read nothing is taken up, as in Istio: half of it is
// what nobody has asked for.
func (f *Filter) setSelectors(out mesh.Batch, source string, list []*meshconfig.LabelSelector) mesh.Batch {
	next, wrong := readSelectors(list)
	if !slices.Equal(f.wrong, wrong) {
		f.wrong = wrong
		out = append(out, mesh.Event{Source: source, Problems: &mesh.Problems{Scope: "meshConfig.discoverySelectors", List: wrong}})
	}
	if len(wrong) > 0 {
		return out
	}
	f.selectors = next
	return f.turnAll(out)
}

func (f *Filter) turnAll(out mesh.Batch) mesh.Batch {
	for _, name := range slices.Sorted(maps.Keys(f.namespaces)) {
		out = f.turn(out, f.namespaces[name])
	}
	return out
}

// turn brings a namespace's objects if it has come to be chosen, and takes them away if it has ceased to be.
func (f *Filter) turn(out mesh.Batch, n *namespace) mesh.Batch {
	chosen := f.chooses(n)
	if chosen == n.chosen {
		return out
	}
	n.chosen = chosen
	for _, key := range slices.SortedFunc(maps.Keys(n.objects), config.Key.Compare) {
		o := n.objects[key]
		if chosen {
			out = append(out, o.event())
		} else {
			out = append(out, mesh.Event{Op: mesh.Delete, Source: o.source, Config: &config.Config{Meta: config.Meta{Key: key}}})
		}
	}
	return out
}
