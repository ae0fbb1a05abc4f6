package memo

import (
	"runtime"
	"sync"
	"weak"
)

// Latest remembers the newest value of each key for as long as somebody else holds it: what the next one may be made of with
// less work than from nothing. Its methods may be called by many goroutines at once.
type Latest[K comparable, T any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[T]
}

// NewLatest makes a Latest that remembers nothing yet. A T of less than 16 bytes without a pointer inside may be remembered
// for longer than it is in use.
func NewLatest[K comparable, T any]() *Latest[K, T] {
	return &Latest[K, T]{values: map[K]weak.Pointer[T]{}}
}

// Get gives the newest value of a key, nil if there is none that is still in use.
func (l *Latest[K, T]) Get(k K) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[k].Value()
}

// Set makes v, which must not be nil, the newest value of a key.
func (l *Latest[K, T]) Set(k K, v *T) {
	w := weak.Make(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[k] = w
	runtime.AddCleanup(v, func(k K) { l.forget(k, w) }, k)
}

// forget drops a value that is gone, unless there is a newer one.
func (l *Latest[K, T]) forget(k K, w weak.Pointer[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values[k] == w {
		delete(l.values, k)
	}
}

// Len is how many values are remembered.
func (l *Latest[K, T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.values)
}
