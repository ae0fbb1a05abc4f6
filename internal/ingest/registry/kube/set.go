package kube

import (
	"cmp"
	"iter"
	"slices"
)

// set is objects that are to be converted again.
type set map[name]struct{}

func (s set) add(k name) { s[k] = struct{}{} }

func (s set) has(k name) bool {
	_, there := s[k]
	return there
}

func (s set) addAll(keys iter.Seq[name]) {
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
