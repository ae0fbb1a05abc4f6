// Package cow implements a persistent hash map. An edit copies only the shards that it changes;
// older versions stay valid and immutable.
//
// The map is split into 256 Go maps by hash. Replacing one of 10,000 entries copies about 40 of
// them instead of all; a lookup costs one additional hash.
//
// Start reading with [Map.Edit].
package cow

import (
	"hash/maphash"
	"iter"
	"maps"
)

const shards = 256

// Map is an immutable map. The zero value is not usable: call [New].
type Map[K comparable, V any] struct {
	seed  maphash.Seed
	shard [shards]map[K]V
	size  int
}

// New returns an empty map.
func New[K comparable, V any]() *Map[K, V] {
	return &Map[K, V]{seed: maphash.MakeSeed()}
}

// index returns the index in m.shard of the shard of a key.
func (m *Map[K, V]) index(k K) int { return int(maphash.Comparable(m.seed, k) % shards) }

// Get returns the value of a key, or the zero value if the map does not contain it.
func (m *Map[K, V]) Get(k K) V { return m.shard[m.index(k)][k] }

// Has reports whether the map contains a key.
func (m *Map[K, V]) Has(k K) bool {
	_, ok := m.shard[m.index(k)][k]
	return ok
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.size }

// All returns an iterator over all entries, in no particular order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, s := range m.shard {
			for k, v := range s {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Edit returns an Edit that builds a new version of m. m stays unchanged.
func (m *Map[K, V]) Edit() *Edit[K, V] { return &Edit[K, V]{base: m} }

// Edit builds a new version of a Map. It must be used by one goroutine at a time.
type Edit[K comparable, V any] struct {
	base  *Map[K, V]
	next  *Map[K, V]
	owned [shards]bool
}

// mutableShard returns shard i of the new version, which the caller may modify. It copies the shard
// at the first call for i, and creates the new version at the first call of all.
func (e *Edit[K, V]) mutableShard(i int) map[K]V {
	if e.next == nil {
		next := *e.base
		e.next = &next
	}
	if !e.owned[i] {
		e.owned[i] = true
		if e.next.shard[i] = maps.Clone(e.next.shard[i]); e.next.shard[i] == nil {
			e.next.shard[i] = map[K]V{}
		}
	}
	return e.next.shard[i]
}

// Get returns the value of a key, including earlier changes of this Edit, or the zero value.
func (e *Edit[K, V]) Get(k K) V {
	if e.next != nil {
		return e.next.Get(k)
	}
	return e.base.Get(k)
}

// Set sets the value of a key in the new version; the base stays unchanged.
func (e *Edit[K, V]) Set(k K, v V) {
	s := e.mutableShard(e.base.index(k))
	if _, there := s[k]; !there {
		e.next.size++
	}
	s[k] = v
}

// Delete removes a key from the new version; the base stays unchanged. It does nothing if the key
// does not exist.
func (e *Edit[K, V]) Delete(k K) {
	i := e.base.index(k)
	cur := e.base
	if e.next != nil {
		cur = e.next
	}
	if _, there := cur.shard[i][k]; !there {
		return
	}
	delete(e.mutableShard(i), k)
	e.next.size--
}

// Done returns the new version, or the old one itself if nothing was set or deleted. The Edit must
// not be used afterwards.
func (e *Edit[K, V]) Done() *Map[K, V] {
	if e.next == nil {
		return e.base
	}
	return e.next
}
