package snapshot

import "sync"

// Derived is a cache of values that are computed from a part of a snapshot: its services, config
// and settings. Snapshots for which that part is equal share one Derived, so a change of endpoints
// invalidates nothing. It is safe for concurrent use.
type Derived struct {
	values sync.Map // any comparable key -> func() any
}

// Derive returns the cached value of key, or computes it with f; concurrent callers wait for one
// computation. K should be a type of the caller's package, so that keys of different packages never
// collide. f must depend only on the key and on the part of the snapshot that d caches for. Derive
// panics if the cached value has another type.
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
