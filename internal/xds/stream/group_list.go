package stream

import (
	"slices"
	"strings"
)

// GroupList is the ResourceGroups of one type in ResourceSnapshots, with what follows from them. It
// is immutable, and shared by the ResourceSnapshots of all classes with these ResourceGroups.
type GroupList struct {
	groups []*ResourceGroup
	sets   *SetList
	// lookedUp are the names that each of the groups has looked up (commonNames).
	lookedUp []string
	version  string
}

// noGroups is the GroupList of a type that is not served.
var noGroups = newGroupList(nil, nil)

// newGroupList returns a GroupList of groups, which it keeps, with their looked-up names.
func newGroupList(groups []*ResourceGroup, lookedUp []string) *GroupList {
	versions := make([]string, len(groups))
	for i, g := range groups {
		versions[i] = g.set.Version()
	}
	return &GroupList{
		groups: groups, sets: newSetList(groups), lookedUp: lookedUp, version: strings.Join(versions, "."),
	}
}

// WithGroups returns the GroupList of groups, which it does not keep: l itself if it has exactly
// these, otherwise a new one. l may be nil. With the last GroupList of similar classes as l, classes
// with the same ResourceGroups share one.
func (l *GroupList) WithGroups(groups []*ResourceGroup) *GroupList {
	switch {
	case l != nil && slices.Equal(l.groups, groups):
		return l
	case l != nil && shareLookedUp(l.groups, groups):
		return newGroupList(slices.Clone(groups), l.lookedUp)
	default:
		return newGroupList(slices.Clone(groups), commonNames(groups))
	}
}
