package snapshot

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TelemetryKeys identifies the Telemetry objects that apply to a proxy: the objects of the root
// namespace and of the proxy's namespace without a selector, and the objects that select the proxy.
// A missing one is the zero Key. Each is merged over those before it.
type TelemetryKeys struct {
	Mesh, Namespace config.Key
	// Workload lists the objects that select the proxy, in the form of PolicyNames, oldest first.
	Workload string
}

// Has reports whether the object k is one of the applicable Telemetry objects.
func (t TelemetryKeys) Has(k config.Key) bool {
	return k.Kind == api.Telemetry && (k == t.Mesh || k == t.Namespace || containsName(t.Workload, k))
}

// Telemetries returns the objects with the given keys in the order of merging: the mesh's, the
// namespace's and the workload's. Objects that no longer exist are left out.
func (s *Snapshot) Telemetries(k TelemetryKeys) []*config.Config {
	var list []*config.Config
	for _, key := range []config.Key{k.Mesh, k.Namespace} {
		if c := s.Config(key); c != nil {
			list = append(list, c)
		}
	}
	return append(list, s.Policies(api.Telemetry, k.Workload)...)
}

// TelemetryKeys returns the keys of the Telemetry objects that apply to a proxy: of the mesh, its
// namespace (unless that is the root namespace) and its workload. Of several of the mesh or of the
// namespace, only the oldest applies. The workload's are all objects of the namespace that select
// or reference the proxy. Version and Metadata of p have no effect.
func (s *Snapshot) TelemetryKeys(p ProxyAttributes) TelemetryKeys {
	t := s.telemetries
	if t == nil {
		return TelemetryKeys{}
	}
	own := t.byNamespace[p.Namespace]
	k := TelemetryKeys{
		Mesh:     oldest(t.byNamespace[t.root].wide),
		Workload: matchingNames(own.selecting, p.isTargetOf),
	}
	if p.Namespace != t.root {
		k.Namespace = oldest(own.wide)
	}
	return k
}

// ShadowedTelemetry is an object without effect, because an older one has the same scope.
type ShadowedTelemetry struct{ Key, Older config.Key }

// ShadowedTelemetries returns the objects of a namespace without selector and reference that have
// no effect, because an older such object has the same scope. It returns nil if there are none.
func (s *Snapshot) ShadowedTelemetries(namespace string) []ShadowedTelemetry {
	if s.telemetries == nil {
		return nil
	}
	var shadowed []ShadowedTelemetry
	for i, c := range s.telemetries.byNamespace[namespace].wide {
		if i > 0 {
			shadowed = append(shadowed, ShadowedTelemetry{c.Key, oldest(s.telemetries.byNamespace[namespace].wide)})
		}
	}
	return shadowed
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

// oldest returns the key of the first object, or the zero Key.
func oldest(list []*config.Config) config.Key {
	if len(list) == 0 {
		return config.Key{}
	}
	return list[0].Key
}

// matchingNames returns the names of the objects for which matches returns true, in their order and
// in the form of PolicyNames.
func matchingNames(list []*config.Config, matches func(*config.Config) bool) string {
	var names strings.Builder
	for _, c := range list {
		if matches(c) {
			names.WriteString(c.Namespace + "/" + c.Name + ";")
		}
	}
	return names.String()
}
