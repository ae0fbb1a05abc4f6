package snapshot

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// KeySet returns the keys of a source, or nil if they have not been fetched yet.
func (s *Snapshot) KeySet(source mesh.KeySource) *mesh.KeySet { return s.keySets[source] }

// applyKeySet stores or deletes the keys of a source and adds the source to delta.KeySets. It
// ignores an event that changes nothing.
func (e *edit) applyKeySet(op mesh.Op, k *mesh.KeySet) {
	old := e.next.keySets[k.Source]
	switch {
	case op == mesh.Delete && old == nil, op == mesh.Upsert && old != nil && *old == *k:
		return
	}
	now := maps.Clone(e.next.keySets)
	if now == nil {
		now = map[mesh.KeySource]*mesh.KeySet{}
	}
	if op == mesh.Delete {
		delete(now, k.Source)
	} else {
		now[k.Source] = k
	}
	e.next.keySets = now
	add(&e.delta.KeySets, k.Source)
}
