package emit

import (
	"iter"
	"maps"
)

// Emitter emits only differences: it keeps the value that was emitted last for each key, and drops
// a Set of an equal value and a Delete of a key that it does not have. It must be used by one
// goroutine at a time.
type Emitter[K comparable, V any] struct {
	equal   func(a, b V) bool
	emitted map[K]V
	pending []Change[K, V]
}

// Change is the difference of one key.
type Change[K comparable, V any] struct {
	Key K
	// HasOld and HasNew report whether the key had a value before, and has one now. Old and New are
	// the zero value otherwise.
	HasOld, HasNew bool
	Old, New       V
}

// NewEmitter returns an Emitter that has emitted nothing. equal must report whether two values are
// the same to receivers, so that no change is needed.
func NewEmitter[K comparable, V any](equal func(a, b V) bool) *Emitter[K, V] {
	return &Emitter[K, V]{equal: equal, emitted: map[K]V{}}
}

// Set sets the value of k. It adds a change for Drain if k had no value or a different one. An
// equal value replaces the kept one too, so that the older one can be released.
func (e *Emitter[K, V]) Set(k K, v V) {
	old, found := e.emitted[k]
	e.emitted[k] = v
	if !found || !e.equal(old, v) {
		e.pending = append(e.pending, Change[K, V]{Key: k, HasOld: found, Old: old, HasNew: true, New: v})
	}
}

// Delete deletes the value of k and adds a change for Drain. It does nothing if k has no value. A
// pending Set of k is not cancelled: Drain returns both changes.
func (e *Emitter[K, V]) Delete(k K) {
	if old, found := e.emitted[k]; found {
		delete(e.emitted, k)
		e.pending = append(e.pending, Change[K, V]{Key: k, HasOld: true, Old: old})
	}
}

// Clone returns a copy with the same values that changes independently and has no pending changes.
func (e *Emitter[K, V]) Clone() *Emitter[K, V] {
	return &Emitter[K, V]{equal: e.equal, emitted: maps.Clone(e.emitted)}
}

// Value returns the current value of k, or the zero value if k has none.
func (e *Emitter[K, V]) Value(k K) V { return e.emitted[k] }

// Keys iterates over the keys that have a value, in no particular order. Delete may be called
// meanwhile.
func (e *Emitter[K, V]) Keys() iter.Seq[K] { return maps.Keys(e.emitted) }

// Drain returns the changes since the last Drain, in the order of the calls, and forgets them. The
// result is valid until the next Set or Delete.
func (e *Emitter[K, V]) Drain() []Change[K, V] {
	changes := e.pending
	e.pending = e.pending[:0]
	return changes
}
