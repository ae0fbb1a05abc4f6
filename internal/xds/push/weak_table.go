package push

import (
	"runtime"
	"sync"
	"weak"
)

// weakTable finds values by a key while something else keeps them reachable. An entry is removed when
// its value was garbage collected.
type weakTable[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]weak.Pointer[V]
}

// newWeakTable returns an empty table.
func newWeakTable[K comparable, V any]() *weakTable[K, V] {
	return &weakTable[K, V]{entries: map[K]weak.Pointer[V]{}}
}

// find returns the value of a key, or nil if the table has none.
func (t *weakTable[K, V]) find(key K) *V {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries[key].Value()
}

// findOrAdd returns the value of a key. If there is none, it adds the result of create, which must
// not be nil. create must not use the table.
func (t *weakTable[K, V]) findOrAdd(key K, create func() *V) *V {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.entries[key].Value(); v != nil {
		return v
	}
	v := create()
	t.entries[key] = weak.Make(v)
	runtime.AddCleanup(v, t.remove, key)
	return v
}

// remove deletes an entry whose value was garbage collected. It does nothing if the entry has a new
// value.
func (t *weakTable[K, V]) remove(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[key].Value() == nil {
		delete(t.entries, key)
	}
}
