package snapshot

import "sync"

// Derived holds values computed from a snapshot's services, config and settings, each once, whoever asks first.
// Snapshots that differ only in endpoints and workloads share one Derived, so such a change costs no recomputation.
type Derived struct {
	values sync.Map // any comparable key -> func() any
}

// Derive gives the value for the key, computing it with f if nobody has yet. K should be a type of the caller's own
// package, so that keys of two packages never meet. f must depend on nothing but the key and what Derived is about.
func Derive[K comparable, V any](d *Derived, key K, f func() V) V {
	once, ok := d.values.Load(key)
	if !ok {
		once, _ = d.values.LoadOrStore(key, sync.OnceValue(func() any { return f() }))
	}
	v, ok := once.(func() any)().(V)
	if !ok {
		panic("snapshot: two types of value under one key of Derived")
	}
	return v
}
