package snapshot

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// SecretAccess returns the API server's answer whether an account may read the Secrets of its
// namespace, or nil if that is not known.
func (s *Snapshot) SecretAccess(a mesh.Account) *mesh.SecretAccess { return s.secretAccess[a] }

// applySecretAccess stores or deletes the access of an account, and adds the account to
// delta.SecretAccess. It ignores an event that changes nothing.
func (e *edit) applySecretAccess(op mesh.Op, r *mesh.SecretAccess) {
	old := e.next.secretAccess[r.Account]
	switch {
	case op == mesh.Delete && old == nil, op == mesh.Upsert && old != nil && *old == *r:
		return
	}
	now := maps.Clone(e.next.secretAccess)
	if now == nil {
		now = map[mesh.Account]*mesh.SecretAccess{}
	}
	if op == mesh.Delete {
		delete(now, r.Account)
	} else {
		now[r.Account] = r
	}
	e.next.secretAccess = now
	add(&e.delta.SecretAccess, r.Account)
}
