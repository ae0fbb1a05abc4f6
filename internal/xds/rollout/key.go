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
	defer func() {
		if v := recover(); v != nil {
			r.options.RecordPanic(v, "proxy", proxy.ID, "namespace", proxy.Namespace, "doing", "find class")
		}
	}()
	return view.KeyFor(r.snapshot, proxy), true
}

// keyMoves returns a function that reports whether the change d from the snapshot old to the
// current one may alter the Key of a proxy. The function returns true for every proxy if the
// snapshots cannot be compared because of a panic, and for a proxy at which it panics.
func (r *Rollout) keyMoves(old *snapshot.Snapshot, d snapshot.Delta) func(*mesh.Proxy) bool {
	moves := r.keyChangeFilter(old, d)
	return func(proxy *mesh.Proxy) (moved bool) {
		defer func() {
			if v := recover(); v != nil {
				r.options.RecordPanic(v, "proxy", proxy.ID, "doing", "compare classes")
				moved = true
			}
		}()
		return moves(proxy)
	}
}

// keyChangeFilter returns view.KeyChangeFilter of the snapshot old and the current one. After a
// panic it returns a function that returns true for every proxy.
func (r *Rollout) keyChangeFilter(old *snapshot.Snapshot, d snapshot.Delta) (moves func(*mesh.Proxy) bool) {
	defer func() {
		if v := recover(); v != nil {
			r.options.RecordPanic(v, "doing", "compare classes")
			moves = func(*mesh.Proxy) bool { return true }
		}
	}()
	return view.KeyChangeFilter(old, r.snapshot, d)
}

// isTouched reports whether the change d may alter the Product of a producer
// (view.Generator.IsTouched). It also returns true without a View, with d.All, and after a panic.
func (r *Rollout) isTouched(pr *producer, d snapshot.Delta) (touched bool) {
	defer func() {
		if v := recover(); v != nil {
			r.options.RecordPanic(v, "type", pr.gen.TypeURL, "doing", "compare products")
			touched = true
		}
	}()
	return pr.view == nil || d.All || pr.gen.IsTouched(pr.view, r.snapshot, d)
}
