package snapshot

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Right says whether an account may read the Secrets of its namespace, nil where that is not known.
func (s *Snapshot) Right(a mesh.Account) *mesh.Right { return s.rights[a] }

// right takes up what an account may do, or that nothing is known of it any more.
func (e *edit) right(op mesh.Op, r *mesh.Right) {
	old := e.next.rights[r.Account]
	switch {
	case op == mesh.Delete && old == nil, op == mesh.Upsert && old != nil && *old == *r:
		return
	}
	now := maps.Clone(e.next.rights)
	if now == nil {
		now = map[mesh.Account]*mesh.Right{}
	}
	if op == mesh.Delete {
		delete(now, r.Account)
	} else {
		now[r.Account] = r
	}
	e.next.rights = now
	add(&e.delta.Rights, r.Account)
}
