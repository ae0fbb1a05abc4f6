package memo

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// cache holds the entries of a Table or KeyedTable; V is a pointer.
type cache[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]*entry[V]
	// weaken makes a weak reference to v. It returns a function that returns v while v is
	// reachable, and arranges for evict to be called afterwards.
	weaken func(v V, evict func()) (load func() (V, bool))

	computed, hits atomic.Uint64
}

type entry[V any] struct {
	mu   sync.Mutex // held while the output is computed
	weak atomic.Pointer[func() (V, bool)]
}

// get returns the output, which may be nil, and true; or false if it has not been computed or has
// been collected.
func (e *entry[V]) get() (V, bool) {
	if load := e.weak.Load(); load != nil {
		return (*load)()
	}
	var none V
	return none, false
}

// newCache returns an empty cache of pointers to T, which it holds weakly: an entry is evicted
// after its output has been collected. A nil output is cached until the process ends.
func newCache[K comparable, T any]() cache[K, *T] {
	return cache[K, *T]{
		entries: map[K]*entry[*T]{},
		weaken: func(v *T, evict func()) func() (*T, bool) {
			if v == nil { // A nil output has no lifetime: it is cached until the process ends.
				return func() (*T, bool) { return nil, true }
			}
			w := weak.Make(v)
			runtime.AddCleanup(v, func(f func()) { f() }, evict)
			return func() (*T, bool) {
				v := w.Value()
				return v, v != nil
			}
		},
	}
}

// lookup returns the entry of k. If there is none, it inserts and returns an empty one.
func (c *cache[K, V]) lookup(k K) *entry[V] {
	c.mu.RLock()
	e := c.entries[k]
	c.mu.RUnlock()
	if e != nil {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[k]; e == nil {
		e = new(entry[V])
		c.entries[k] = e
	}
	return e
}

// compute returns build(in) and stores it weakly in e, the entry of k, whose lock is held during
// the call. If another goroutine has stored an output since the lookup, compute returns that
// output, counted as a hit, and does not call build. It is separate from lookup because the
// eviction closure moves k to the heap, which a hit must not pay for.
func compute[I any, K comparable, V any](c *cache[K, V], e *entry[V], k K, in I, build func(I) V) V {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, ok := e.get(); ok {
		c.hits.Add(1)
		return v
	}
	v := build(in)
	c.computed.Add(1)
	load := c.weaken(v, func() { c.evict(k, e) })
	e.weak.Store(&load)
	return v
}

// evict deletes e, an entry of k, if its output has been collected. It does nothing if the output
// has been recomputed or k has a newer entry.
func (c *cache[K, V]) evict(k K, e *entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := e.get(); !ok && c.entries[k] == e {
		delete(c.entries, k)
	}
}

// Computed returns how many outputs have been computed since the cache was created.
func (c *cache[K, V]) Computed() uint64 { return c.computed.Load() }

// Hits returns how many calls of Get found their output in the cache.
func (c *cache[K, V]) Hits() uint64 { return c.hits.Load() }

// Len returns how many entries the cache has, including entries whose output has been collected and
// not yet evicted.
func (c *cache[K, V]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}
