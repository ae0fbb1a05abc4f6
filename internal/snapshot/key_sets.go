package snapshot

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// KeySet gives what is known of the keys of a source, nil where nothing is: nobody has looked yet.
func (s *Snapshot) KeySet(source mesh.KeySource) *mesh.KeySet { return s.keySets[source] }

// keySet takes up the keys of an issuer of tokens, or that nothing is known of them any more.
func (e *edit) keySet(op mesh.Op, k *mesh.KeySet) {
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
