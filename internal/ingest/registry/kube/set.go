package kube

import (
	"cmp"
	"iter"
	"slices"
)

// dirtySet contains the objects that must be converted again.
type dirtySet map[name]struct{}

// add adds k to the set.
func (s dirtySet) add(k name) { s[k] = struct{}{} }

// has reports whether k is in the set.
func (s dirtySet) has(k name) bool {
	_, there := s[k]
	return there
}

// addAll adds all keys to the set.
func (s dirtySet) addAll(keys iter.Seq[name]) {
	for k := range keys {
		s[k] = struct{}{}
	}
}

// drain empties the set and returns its former elements, sorted by namespace and name, or nil. It
// releases the memory of the set, because at the start that has all objects.
func (s *dirtySet) drain() []name {
	if len(*s) == 0 {
		return nil
	}
	list := make([]name, 0, len(*s))
	for k := range *s {
		list = append(list, k)
	}
	*s = dirtySet{}
	slices.SortFunc(list, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
