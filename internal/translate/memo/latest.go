package memo

import (
	"runtime"
	"sync"
	"weak"
)

// Latest caches the newest value of each key by a weak pointer, so that the next value can be
// derived from it with less work. A value is evicted once nothing else references it. Its methods
// are safe for concurrent use.
type Latest[K comparable, T any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[T]
}

// NewLatest returns an empty Latest. A T of less than 16 bytes without pointers may stay cached
// longer than it is in use.
func NewLatest[K comparable, T any]() *Latest[K, T] {
	return &Latest[K, T]{values: map[K]weak.Pointer[T]{}}
}

// Get returns the newest value of k, or nil if k has none that is still in use.
func (l *Latest[K, T]) Get(k K) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[k].Value()
}

// Set replaces the value of k by v, which must not be nil. It holds v weakly: the entry is deleted
// when v has been collected.
func (l *Latest[K, T]) Set(k K, v *T) {
	w := weak.Make(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[k] = w
	runtime.AddCleanup(v, func(k K) { l.evict(k, w) }, k)
}

// evict deletes the entry of k unless its value is no longer w, because it has been replaced since.
func (l *Latest[K, T]) evict(k K, w weak.Pointer[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values[k] == w {
		delete(l.values, k)
	}
}

// Len returns how many keys have a value, including values that have been collected and not yet
// evicted.
func (l *Latest[K, T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.values)
}
