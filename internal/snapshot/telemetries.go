package snapshot

import (
	"iter"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TelemetryKeys identifies the Telemetry objects that apply to a proxy: the objects of the root
// namespace and of the proxy's namespace without a selector, and the object that selects the proxy.
// A missing one is the zero Key. Each is merged over those before it.
type TelemetryKeys struct {
	Mesh, Namespace, Workload config.Key
	// Ignored is another object that selects the proxy, by other labels than Workload. It is
	// ignored and reported to users.
	Ignored config.Key
}

// All returns the keys in the order of merging, including zero Keys.
func (t TelemetryKeys) All() [3]config.Key { return [3]config.Key{t.Mesh, t.Namespace, t.Workload} }

// Has reports whether the object k is one of the applicable Telemetry objects; it returns false for
// Ignored.
func (t TelemetryKeys) Has(k config.Key) bool {
	return k.Kind == api.Telemetry && (k == t.Mesh || k == t.Namespace || k == t.Workload)
}

// TelemetryRows are the objects that TelemetryKeys identifies, from the mesh's to the workload's;
// nil if there is none.
type TelemetryRows [3]*config.Config

// Telemetries returns the objects with the given keys. Objects that no longer exist are nil. So are
// the objects of empty keys.
func (s *Snapshot) Telemetries(k TelemetryKeys) TelemetryRows {
	var rows TelemetryRows
	for i, key := range k.All() {
		if key != (config.Key{}) {
			rows[i] = s.Config(key)
		}
	}
	return rows
}

// TelemetryKeys returns the keys of the Telemetry objects that apply to a proxy: of the mesh, its
// namespace (unless that is the root namespace) and its workload. Of several for one position, the
// oldest applies. Ignored is the oldest other object of the proxy's namespace that also selects it,
// with other labels; Version and Metadata of p have no effect.
func (s *Snapshot) TelemetryKeys(p ProxyAttributes) TelemetryKeys {
	t := s.telemetries
	if t == nil {
		return TelemetryKeys{}
	}
	own := t.byNamespace[p.Namespace]
	k := TelemetryKeys{
		Mesh:     firstMatching(t.byNamespace[t.root].wide),
		Workload: firstMatching(own.selecting, p.isTargetOf),
	}
	if p.Namespace != t.root {
		k.Namespace = firstMatching(own.wide)
	}
	if len(own.selecting) > 1 && k.Workload != (config.Key{}) {
		labels := matchLabels(s.Config(k.Workload))
		k.Ignored = firstMatching(own.selecting, func(c *config.Config) bool {
			return c.Key != k.Workload && !maps.Equal(labels, matchLabels(c)) && p.isTargetOf(c)
		})
	}
	return k
}

// ShadowedTelemetry is an object without effect, because an older one has the same scope.
type ShadowedTelemetry struct{ Key, Older config.Key }

// ShadowedTelemetries returns the objects of a namespace without effect, each with the older object
// that shadows it. These are objects without selector and reference beside an older such object,
// and objects with the same labels in the selector as an older one. Objects with only references
// are never in the list. It returns nil if there are none.
func (s *Snapshot) ShadowedTelemetries(namespace string) []ShadowedTelemetry {
	if s.telemetries == nil {
		return nil
	}
	var spare []ShadowedTelemetry
	of := s.telemetries.byNamespace[namespace]
	for i, c := range of.wide {
		if i > 0 {
			spare = append(spare, ShadowedTelemetry{c.Key, of.wide[0].Key})
		}
	}
	for i, c := range of.selecting {
		labels := matchLabels(c)
		same := func(o *config.Config) bool { return len(labels) > 0 && maps.Equal(labels, matchLabels(o)) }
		if older := slices.IndexFunc(of.selecting[:i], same); older >= 0 {
			spare = append(spare, ShadowedTelemetry{c.Key, of.selecting[older].Key})
		}
	}
	return spare
}

// telemetries is the index of Telemetry objects by namespace. A nil index is empty.
type telemetries struct {
	root        string
	byNamespace map[string]namespaceTelemetries
}

// namespaceTelemetries contains the objects of one namespace, oldest first: those without a
// selector or reference, and the others.
type namespaceTelemetries struct{ wide, selecting []*config.Config }

// updateIndex returns the index after a change of objects; t is not modified and may be nil. list
// must contain all Telemetry objects, sorted by namespace. If all is set, every namespace is
// indexed again. It returns nil for an empty list.
func (t *telemetries) updateIndex(
	objects map[config.Key]struct{},
	all bool,
	list []*config.Config,
	settings *Settings,
) *telemetries {
	if len(list) == 0 {
		return nil
	}
	next := &telemetries{root: settings.RootNamespace, byNamespace: map[string]namespaceTelemetries{}}
	if t == nil || all {
		for of := range namespaceParts(list) {
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

// namespaceParts iterates over the parts of list that are of one namespace each, which share its
// memory. list must be sorted by namespace.
func namespaceParts(list []*config.Config) iter.Seq[[]*config.Config] {
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

// newNamespaceTelemetries returns the index of the objects of one namespace, oldest first,
// separately for objects with and without a selector or reference.
func newNamespaceTelemetries(list []*config.Config) namespaceTelemetries {
	var n namespaceTelemetries
	for _, c := range slices.SortedFunc(slices.Values(list), config.CompareAge) {
		if selector, refs := policyTarget(c); len(selector) == 0 && len(refs) == 0 {
			n.wide = append(n.wide, c)
		} else {
			n.selecting = append(n.selecting, c)
		}
	}
	return n
}

// firstMatching returns the key of the first object for which all conditions return true, or the
// zero Key.
func firstMatching(list []*config.Config, all ...func(*config.Config) bool) config.Key {
	for _, c := range list {
		if !slices.ContainsFunc(all, func(is func(*config.Config) bool) bool { return !is(c) }) {
			return c.Key
		}
	}
	return config.Key{}
}
