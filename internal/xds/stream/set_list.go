package stream

import (
	"iter"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// SetList is the sets of all ResourceGroups of one type in ResourceSnapshots. Most proxies that
// reconnect report exactly the resources of one. It is immutable and shared.
type SetList struct {
	sets []*resource.Set
	// count is the number of resources, and sum the sum of their resource.Hash.
	count int
	sum   uint64
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
			if l.count > 0 && !yield(w.types.list[at].URL, l) {
				return
			}
		}
	}
}
