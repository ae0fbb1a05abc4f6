package snapshot

import (
	"iter"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TelemetryKeys names the Telemetry objects that hold for a proxy, the zero Key where there is none: the root namespace's
// and the proxy's namespace's for everybody, and the one that selects the proxy. Each adds to those before it.
type TelemetryKeys struct {
	Mesh, Namespace, Workload config.Key
	// Passed is an object that selects the proxy too, by other labels than Workload, and has no effect: users are told.
	Passed config.Key
}

// All gives the names of what holds in order, those of nothing too.
func (t TelemetryKeys) All() [3]config.Key { return [3]config.Key{t.Mesh, t.Namespace, t.Workload} }

// Has says whether the object is one of them.
func (t TelemetryKeys) Has(k config.Key) bool {
	return k.Kind == api.Telemetry && (k == t.Mesh || k == t.Namespace || k == t.Workload)
}

// TelemetryRows are the objects that TelemetryKeys names, from the mesh's to the workload's; nil where there is none.
type TelemetryRows [3]*config.Config

// Telemetries gives the objects of the names. One that is gone since is left out.
func (s *Snapshot) Telemetries(k TelemetryKeys) TelemetryRows {
	var rows TelemetryRows
	for i, key := range k.All() {
		if key != (config.Key{}) {
			rows[i] = s.Config(key)
		}
	}
	return rows
}

// TelemetryKeys gives the names of the Telemetry objects that hold for a proxy (of Patched, Version and Metadata do not
// count). Of several that would stand in one place the oldest does.
func (s *Snapshot) TelemetryKeys(p Patched) TelemetryKeys {
	t := s.telemetries
	if t == nil {
		return TelemetryKeys{}
	}
	own := t.byNamespace[p.Namespace]
	k := TelemetryKeys{Mesh: first(t.byNamespace[t.root].wide), Workload: first(own.selecting, func(c *config.Config) bool { return p.holds(c, t.root) })}
	if p.Namespace != t.root {
		k.Namespace = first(own.wide)
	}
	if k.Workload == (config.Key{}) && p.Namespace != t.root { // a GatewayClass is named in the root namespace
		k.Workload = first(t.byNamespace[t.root].selecting, func(c *config.Config) bool {
			_, refs := attachment(c)
			return len(refs) > 0 && p.holds(c, t.root)
		})
	}
	if len(own.selecting) > 1 && k.Workload.Namespace == p.Namespace {
		labels := selectorOf(s.Config(k.Workload))
		k.Passed = first(own.selecting, func(c *config.Config) bool {
			return c.Key != k.Workload && !maps.Equal(labels, selectorOf(c)) && p.holds(c, t.root)
		})
	}
	return k
}

// SpareTelemetry is an object that never has an effect, for an older one stands in its place.
type SpareTelemetry struct{ Key, Older config.Key }

// SpareTelemetries gives the spare objects of a namespace: of those for everybody all but the oldest, and those that select by
// the same labels as an older one does.
func (s *Snapshot) SpareTelemetries(namespace string) []SpareTelemetry {
	if s.telemetries == nil {
		return nil
	}
	var spare []SpareTelemetry
	of := s.telemetries.byNamespace[namespace]
	for i, c := range of.wide {
		if i > 0 {
			spare = append(spare, SpareTelemetry{c.Key, of.wide[0].Key})
		}
	}
	for i, c := range of.selecting {
		labels := selectorOf(c)
		same := func(o *config.Config) bool { return len(labels) > 0 && maps.Equal(labels, selectorOf(o)) }
		if older := slices.IndexFunc(of.selecting[:i], same); older >= 0 {
			spare = append(spare, SpareTelemetry{c.Key, of.selecting[older].Key})
		}
	}
	return spare
}

// telemetries is the index of Telemetry objects by whom they hold for. nil is an index of none.
type telemetries struct {
	root        string
	byNamespace map[string]namespaceTelemetries
}

// namespaceTelemetries are the objects of one namespace, the oldest first: those for everybody, and the others.
type namespaceTelemetries struct{ wide, selecting []*config.Config }

// changed makes the index after a change of objects of some namespaces; list is all of the kind, sorted by namespace. all
// says that anything may differ.
func (t *telemetries) changed(objects map[config.Key]struct{}, all bool, list []*config.Config, settings *Settings) *telemetries {
	if len(list) == 0 {
		return nil
	}
	next := &telemetries{root: settings.RootNamespace, byNamespace: map[string]namespaceTelemetries{}}
	if t == nil || all {
		for of := range chunks(list) {
			next.byNamespace[of[0].Namespace] = newNamespaceTelemetries(of)
		}
		return next
	}
	next.byNamespace = maps.Clone(t.byNamespace)
	for k := range objects {
		if k.Kind != api.Telemetry {
			continue
		}
		delete(next.byNamespace, k.Namespace)
		if of := inNamespace(list, k.Namespace); len(of) > 0 {
			next.byNamespace[k.Namespace] = newNamespaceTelemetries(of)
		}
	}
	return next
}

// chunks gives the parts of a list, sorted by namespace, that are of one namespace each.
func chunks(list []*config.Config) iter.Seq[[]*config.Config] {
	return func(yield func([]*config.Config) bool) {
		for len(list) > 0 {
			of := inNamespace(list, list[0].Namespace)
			if !yield(of) {
				return
			}
			list = list[len(of):]
		}
	}
}

func newNamespaceTelemetries(list []*config.Config) namespaceTelemetries {
	var n namespaceTelemetries
	for _, c := range slices.SortedFunc(slices.Values(list), config.Older) {
		if selector, refs := attachment(c); len(selector) == 0 && len(refs) == 0 {
			n.wide = append(n.wide, c)
		} else {
			n.selecting = append(n.selecting, c)
		}
	}
	return n
}

// first gives the name of the first object of which all is true, the zero Key if there is none.
func first(list []*config.Config, all ...func(*config.Config) bool) config.Key {
	for _, c := range list {
		if !slices.ContainsFunc(all, func(is func(*config.Config) bool) bool { return !is(c) }) {
			return c.Key
		}
	}
	return config.Key{}
}
