package route

import "unique"

// list is an immutable list that can be compared and be part of a memo key: two lists with equal elements in the same
// order are ==. The zero list is empty.
type list[T comparable] struct{ first unique.Handle[cell[T]] }

type cell[T comparable] struct {
	value T
	rest  list[T]
}

// listOf makes the list of the values.
func listOf[T comparable](values []T) list[T] {
	var l list[T]
	for i := len(values) - 1; i >= 0; i-- {
		l = list[T]{unique.Make(cell[T]{values[i], l})}
	}
	return l
}

// all gives the values in order.
func (l list[T]) all(yield func(T) bool) {
	for l != (list[T]{}) {
		c := l.first.Value()
		if !yield(c.value) {
			return
		}
		l = c.rest
	}
}
