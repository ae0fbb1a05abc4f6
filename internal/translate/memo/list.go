package memo

import "unique"

// List is an immutable list that can be compared and be part of a memo key: two lists with equal elements in the same
// order are ==. The zero list is empty.
type List[T comparable] struct{ first unique.Handle[cell[T]] }

type cell[T comparable] struct {
	value T
	rest  List[T]
}

// ListOf makes the list of the values.
func ListOf[T comparable](values []T) List[T] {
	var l List[T]
	for i := len(values) - 1; i >= 0; i-- {
		l = List[T]{unique.Make(cell[T]{values[i], l})}
	}
	return l
}

// All gives the values in order.
func (l List[T]) All(yield func(T) bool) {
	for l != (List[T]{}) {
		c := l.first.Value()
		if !yield(c.value) {
			return
		}
		l = c.rest
	}
}
