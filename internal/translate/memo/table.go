package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// Table remembers outputs of one function; V is a pointer. Its methods may be called by many goroutines at once.
type Table[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]*entry[V]
	// weaken gives a function that gives the output for as long as it lives, and has gone called afterwards.
	weaken func(v V, gone func()) (alive func() (V, bool))

	computed, hits atomic.Uint64
}

type entry[V any] struct {
	mu    sync.Mutex // held while the output is computed
	alive atomic.Pointer[func() (V, bool)]
}

func (e *entry[V]) get() (V, bool) {
	if alive := e.alive.Load(); alive != nil {
		return (*alive)()
	}
	var none V
	return none, false
}

// New makes an empty Table of outputs that are pointers to T. A T of less than 16 bytes without a pointer inside may be
// remembered for longer than it is in use.
func New[K comparable, T any]() *Table[K, *T] {
	return &Table[K, *T]{
		entries: map[K]*entry[*T]{},
		weaken: func(v *T, gone func()) func() (*T, bool) {
			if v == nil { // nothing to hold: remembered for good
				return func() (*T, bool) { return nil, true }
			}
			w := weak.Make(v)
			runtime.AddCleanup(v, func(f func()) { f() }, gone)
			return func() (*T, bool) {
				v := w.Value()
				return v, v != nil
			}
		},
	}
}

// Do gives f(k), computed now or earlier. f must depend on k alone and be the same function in every call. If f panics
// the panic passes through and nothing is remembered.
func (t *Table[K, V]) Do(k K, f func(K) V) V {
	t.mu.RLock()
	e := t.entries[k]
	t.mu.RUnlock()
	if e == nil {
		t.mu.Lock()
		if e = t.entries[k]; e == nil {
			e = new(entry[V])
			t.entries[k] = e
		}
		t.mu.Unlock()
	}
	if v, ok := e.get(); ok {
		t.hits.Add(1)
		return v
	}
	return t.compute(k, e, f)
}

// compute gives f(k), computed here or by another meanwhile. It is apart, for the key that it holds on to must be copied.
func (t *Table[K, V]) compute(k K, e *entry[V], f func(K) V) V {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, ok := e.get(); ok { // computed by another while we waited
		t.hits.Add(1)
		return v
	}
	v := f(k)
	t.computed.Add(1)
	alive := t.weaken(v, func() { t.forget(k, e) })
	e.alive.Store(&alive)
	return v
}

// forget drops an entry whose output is gone, unless it was computed anew since.
func (t *Table[K, V]) forget(k K, e *entry[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := e.get(); !ok && t.entries[k] == e {
		delete(t.entries, k)
	}
}

// Computed is how often the function was called, since the start.
func (t *Table[K, V]) Computed() uint64 { return t.computed.Load() }

// Hits is how often an output was there already, since the start.
func (t *Table[K, V]) Hits() uint64 { return t.hits.Load() }

// Len is how many outputs are remembered.
func (t *Table[K, V]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}
