package registry

import (
	"iter"
	"maps"
)

// Index maps a key to a set of values: pods to the EndpointSlices that refer to them, for instance.
// The zero value is empty. A key with one value needs no map of its own, which saves memory because
// most keys have one.
type Index[K, V comparable] struct {
	first map[K]V
	more  map[K]map[V]struct{} // all values but the first
}

// Add adds a value to a key. It does nothing if the key has the value.
func (x *Index[K, V]) Add(k K, v V) {
	first, found := x.first[k]
	switch {
	case !found:
		if x.first == nil {
			x.first = map[K]V{}
		}
		x.first[k] = v
	case first != v:
		more := x.more[k]
		if more == nil {
			if x.more == nil {
				x.more = map[K]map[V]struct{}{}
			}
			more = map[V]struct{}{}
			x.more[k] = more
		}
		more[v] = struct{}{}
	}
}

// Remove removes a value from a key, and the key with its last value. It does nothing if the key
// does not have the value. Another of its values may then be returned first.
func (x *Index[K, V]) Remove(k K, v V) {
	first, found := x.first[k]
	more := x.more[k]
	switch {
	case !found:
		return
	case first != v:
		delete(more, v)
	case len(more) == 0:
		delete(x.first, k)
		return
	default:
		for next := range more {
			x.first[k] = next
			delete(more, next)
			break
		}
	}
	if len(more) == 0 {
		delete(x.more, k)
	}
}

// Values returns an iterator over the values of a key, in no particular order. It is empty for an
// unknown key.
func (x *Index[K, V]) Values(k K) iter.Seq[V] {
	return func(yield func(V) bool) {
		first, found := x.first[k]
		if !found || !yield(first) {
			return
		}
		for v := range x.more[k] {
			if !yield(v) {
				return
			}
		}
	}
}

// Clone returns a copy that changes independently.
func (x *Index[K, V]) Clone() Index[K, V] {
	c := Index[K, V]{first: maps.Clone(x.first)}
	if x.more != nil {
		c.more = make(map[K]map[V]struct{}, len(x.more))
		for k, values := range x.more {
			c.more[k] = maps.Clone(values)
		}
	}
	return c
}

// Has reports whether a key has at least one value.
func (x *Index[K, V]) Has(k K) bool {
	_, found := x.first[k]
	return found
}
