package registry

import "iter"

// Index files values under keys, in no order: EndpointSlices under the pods they refer to, pods under their address. The zero
// value is empty. Most keys have one value, which costs no map of its own.
type Index[K, V comparable] struct {
	first map[K]V
	more  map[K]map[V]struct{} // but for the first
}

// Add files a value. One that is filed already stays so.
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

// Remove takes a value out, if it is there.
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

// Of gives the values of a key.
func (x *Index[K, V]) Of(k K) iter.Seq[V] {
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

// Has says whether a key has any value.
func (x *Index[K, V]) Has(k K) bool {
	_, found := x.first[k]
	return found
}
