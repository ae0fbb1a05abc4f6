package kube

import (
	"cmp"
	"slices"
)

// index files values under keys: slices under the pods they refer to, pods under their node.
type index[K, V comparable] map[K]map[V]struct{}

func (x index[K, V]) add(k K, v V) {
	values := x[k]
	if values == nil {
		values = map[V]struct{}{}
		x[k] = values
	}
	values[v] = struct{}{}
}

func (x index[K, V]) remove(k K, v V) {
	values := x[k]
	delete(values, v)
	if len(values) == 0 {
		delete(x, k)
	}
}

// set is objects that are to be converted again.
type set map[name]struct{}

func (s set) add(k name) { s[k] = struct{}{} }

func (s set) addAll(keys map[name]struct{}) {
	for k := range keys {
		s[k] = struct{}{}
	}
}

// take empties the set and gives what was in it, sorted.
func (s set) take() []name {
	if len(s) == 0 {
		return nil
	}
	list := make([]name, 0, len(s))
	for k := range s {
		list = append(list, k)
	}
	clear(s)
	slices.SortFunc(list, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
