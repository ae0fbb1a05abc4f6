package stream

import (
	"iter"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// SetList is the sets of all ResourceGroups of one type in ResourceSnapshots. Most proxies that
// reconnect report exactly the resources of one. Its resources are immutable, and it is
// shared.
type SetList struct {
	sets []*resource.Set
	// count is the number of resources, and sum the sum of their resource.Hash.
	count int
	sum   uint64
	// interned is the result of Intern; nil before.
	interned *SetList
}

// newSetList returns the SetList of ResourceGroups.
func newSetList(groups []*ResourceGroup) *SetList {
	l := &SetList{sets: make([]*resource.Set, len(groups))}
	for i, g := range groups {
		l.sets[i] = g.set
		l.count, l.sum = l.count+g.set.Len(), l.sum+g.set.Sum()
	}
	return l
}

// Len returns the number of resources.
func (l *SetList) Len() int { return l.count }

// Sum returns the sum of the hashes of all resources, as resource.Hash computes them.
func (l *SetList) Sum() uint64 { return l.sum }

// Intern calls find at the first call only, and keeps the SetList that it returns as long as l is
// reachable. Concurrent calls are not safe.
func (l *SetList) Intern(find func() *SetList) {
	if l.interned == nil {
		l.interned = find()
	}
}

// find returns the resource with a name, or nil.
func (l *SetList) find(name string) *resource.Resource {
	for _, s := range l.sets {
		if r := s.Get(name); r != nil {
			return r
		}
	}
	return nil
}

// SetLists returns an iterator over the type URLs and SetLists of w. Types without resources are
// left out.
func (w *ResourceSnapshot) SetLists() iter.Seq2[string, *SetList] {
	return func(yield func(string, *SetList) bool) {
		for at, l := range w.lists {
			if l.sets.count > 0 && !yield(w.types.list[at].URL, l.sets) {
				return
			}
		}
	}
}
