// Package cow is a persistent map: an edit copies only the parts that change, and every older version stays as it was.
//
// It is a plain Go map cut into shards. Replacing one of 10,000 entries copies about 40 of them, where copying one flat
// map copies all; look-ups cost one more hash.
package cow

import (
	"hash/maphash"
	"iter"
	"maps"
)

const shards = 256

// Map is an immutable map. The zero value is not usable; [New] makes an empty one.
type Map[K comparable, V any] struct {
	seed  maphash.Seed
	shard [shards]map[K]V
	size  int
}

// New makes an empty map.
func New[K comparable, V any]() *Map[K, V] {
	return &Map[K, V]{seed: maphash.MakeSeed()}
}

func (m *Map[K, V]) index(k K) int { return int(maphash.Comparable(m.seed, k) % shards) }

// Get gives the value of a key, the zero value if it is not there.
func (m *Map[K, V]) Get(k K) V { return m.shard[m.index(k)][k] }

// Has says whether a key is there.
func (m *Map[K, V]) Has(k K) bool {
	_, ok := m.shard[m.index(k)][k]
	return ok
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return m.size }

// All walks over all entries in no particular order.
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

// Edit begins a new version.
func (m *Map[K, V]) Edit() *Edit[K, V] { return &Edit[K, V]{base: m} }

// Edit is a new version in the making. It is used by one goroutine.
type Edit[K comparable, V any] struct {
	base  *Map[K, V]
	next  *Map[K, V]
	owned [shards]bool
}

func (e *Edit[K, V]) own(i int) map[K]V {
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

// Get gives the value of a key as edited so far.
func (e *Edit[K, V]) Get(k K) V {
	if e.next != nil {
		return e.next.Get(k)
	}
	return e.base.Get(k)
}

// Set puts a value.
func (e *Edit[K, V]) Set(k K, v V) {
	s := e.own(e.base.index(k))
	if _, there := s[k]; !there {
		e.next.size++
	}
	s[k] = v
}

// Delete takes a key out; one that is not there is no change.
func (e *Edit[K, V]) Delete(k K) {
	i := e.base.index(k)
	cur := e.base
	if e.next != nil {
		cur = e.next
	}
	if _, there := cur.shard[i][k]; !there {
		return
	}
	delete(e.own(i), k)
	e.next.size--
}

// Done gives the new version: the old one itself if nothing was edited. The Edit must not be used afterwards.
func (e *Edit[K, V]) Done() *Map[K, V] {
	if e.next == nil {
		return e.base
	}
	return e.next
}
