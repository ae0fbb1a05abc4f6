package snapshot

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Fork returns a Builder with the same state, which changes independently of b: events that are
// applied to one do not affect the other. Both share all rows. It copies the Builder's indexes, in
// a time that is proportional to the number of services and workloads. The plan of allocated
// addresses is built by the first Apply of the fork.
func (b *Builder) Fork() *Builder {
	f := *b
	f.definitions = serviceDefinitions{
		byKey:          maps.Clone(b.definitions.byKey),
		podSelecting:   cloneNested(b.definitions.podSelecting),
		entrySelecting: cloneNested(b.definitions.entrySelecting),
		external:       maps.Clone(b.definitions.external),
	}
	f.workloads = workloads{pods: cloneNested(b.workloads.pods), entries: cloneNested(b.workloads.entries)}
	f.gateways, f.problems = maps.Clone(b.gateways), maps.Clone(b.problems)
	f.refused.events = make(map[subject]*refusedEvent, len(b.refused.events))
	for k, r := range b.refused.events {
		once := *r
		f.refused.events[k] = &once
	}
	f.addressPlan = addressPlan{}
	f.needsAddressPlan = true
	return &f
}

// Settings returns the settings from all events so far, without defaults (see Snapshot.Settings).
func (b *Builder) Settings() mesh.Settings { return b.settings }

// cloneNested returns a copy of a map and of its inner maps, never nil. The values are shared.
func cloneNested[K1, K2 comparable, V any](m map[K1]map[K2]V) map[K1]map[K2]V {
	next := make(map[K1]map[K2]V, len(m))
	for k, inner := range m {
		next[k] = maps.Clone(inner)
	}
	return next
}
