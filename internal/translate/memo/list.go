package memo

import "unique"

// List is an immutable, comparable list, for use in keys of a Table. Lists are equal (==) if they
// have equal elements in the same order. The zero List is empty.
type List[T comparable] struct{ first unique.Handle[cell[T]] }

type cell[T comparable] struct {
	value T
	rest  List[T]
}

// ListOf returns the list of values, in their order.
func ListOf[T comparable](values []T) List[T] {
	var l List[T]
	for i := len(values) - 1; i >= 0; i-- {
		l = List[T]{unique.Make(cell[T]{values[i], l})}
	}
	return l
}

// All calls yield for each value in order, until yield returns false. It is an iter.Seq.
func (l List[T]) All(yield func(T) bool) {
	for l != (List[T]{}) {
		c := l.first.Value()
		if !yield(c.value) {
			return
		}
		l = c.rest
	}
}
