package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Panics in the functions of this file concern one proxy or one producer, and happen before
// anything is changed. They are recovered. All other panics of a Rollout are not: nothing shows
// that its state is consistent after one.

// keyFor returns the Key of a proxy in the current snapshot. If view.KeyFor panics, ok is false:
// then the client stays in its class, or without one, until a later turn.
func (r *Rollout) keyFor(proxy *mesh.Proxy) (key view.Key, ok bool) {
	err := r.options.Recover(func() { key = view.KeyFor(r.snapshot, proxy) },
		"proxy", proxy.ID, "namespace", proxy.Namespace, "doing", "find class")
	return key, err == nil
}

// keyMoves returns a function that reports whether the change d from the snapshot old to the
// current one may alter the Key of a proxy. The function returns true for every proxy if the
// snapshots cannot be compared because of a panic, and for a proxy at which it panics.
func (r *Rollout) keyMoves(old *snapshot.Snapshot, d snapshot.Delta) func(*mesh.Proxy) bool {
	always := func(*mesh.Proxy) bool { return true }
	moves := always
	compare := func() { moves = view.KeyChangeFilter(old, r.snapshot, d) }
	if err := r.options.Recover(compare, "doing", "compare classes"); err != nil {
		return always
	}
	return func(proxy *mesh.Proxy) (moved bool) {
		err := r.options.Recover(func() { moved = moves(proxy) }, "proxy", proxy.ID, "doing", "compare classes")
		return moved || err != nil
	}
}

// isTouched reports whether the change d may alter the Product of a producer (see
// producer.isTouched). It also returns true after a panic.
func (r *Rollout) isTouched(pr *producer, d snapshot.Delta) (touched bool) {
	err := r.options.Recover(func() { touched = pr.isTouched(r.snapshot, d) },
		"type", pr.gen.TypeURL, "doing", "compare products")
	return touched || err != nil
}
