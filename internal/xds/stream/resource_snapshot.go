package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// ResourceSnapshot is the resources of all types for the clients of one class at one moment. It is
// immutable and shared by all their streams. A ResourceSnapshot is cheap to make: it refers to
// ResourceGroups, and only ResourceGroups whose resources changed are new in the next
// ResourceSnapshot.
type ResourceSnapshot struct {
	types       *Types
	lists       []*GroupList // by position in types
	endpointsOf func(cluster *resource.Resource) string
	clustersOf  func(r *resource.Resource) []string
	fetched     func(cluster string) bool
	empty       func(cluster string) *resource.Resource
	pinned      *pinnedClusters // nil without fetched
}

// Contents are the parameters of BuildResourceSnapshot.
type Contents struct {
	// Types is the table of types. If nil, the types of Envoy are used.
	Types *Types
	// Groups has the ResourceGroups of each type, by type URL. A type may have several Groups:
	// their names must be disjoint, and their order must be the same in every ResourceSnapshot of a
	// client. A type without ResourceGroups is not served.
	Groups map[string][]*ResourceGroup
	// EndpointsOf returns the name of the ClusterLoadAssignment that an encoded cluster waits for,
	// or "" if it waits for none. If EndpointsOf is nil, no cluster waits for endpoints.
	EndpointsOf func(cluster *resource.Resource) string
	// ClustersOf returns the names of the clusters that an encoded route configuration, listener or
	// extension refers to, in any order. It is called at most once for each resource of a
	// ResourceGroup, and only while a client may lack clusters. If ClustersOf is nil, no resource
	// waits for clusters.
	ClustersOf func(r *resource.Resource) []string
	// FetchedOnDemand reports whether clients fetch a cluster by its name when they first use it. A
	// wildcard does not cover such a cluster. If FetchedOnDemand is nil, a wildcard covers all.
	FetchedOnDemand func(cluster string) bool
	// EmptyCluster returns a cluster of that name without endpoints. It is sent in place of a
	// cluster that a client has fetched on demand and that does not exist. It is required with
	// FetchedOnDemand.
	EmptyCluster func(name string) *resource.Resource
	// PinnedBy returns the names of the clusters that a route configuration, listener or extension
	// uses without fetching them on demand. A wildcard covers them. It is required with
	// FetchedOnDemand.
	PinnedBy func(r *resource.Resource) []string
}

// NewResourceSnapshot returns a ResourceSnapshot of Envoy's types in which no resource waits for
// clusters (see Contents.ClustersOf).
func NewResourceSnapshot(
	groups map[string][]*ResourceGroup,
	endpointsOf func(cluster *resource.Resource) string,
) *ResourceSnapshot {
	return BuildResourceSnapshot(Contents{Groups: groups, EndpointsOf: endpointsOf})
}

// BuildResourceSnapshot returns a ResourceSnapshot with the given contents. Without Types it has
// Envoy's. Without EndpointsOf no cluster waits for endpoints, and without ClustersOf no resource
// waits for clusters. Groups of types that are not in Types are ignored, as are EmptyCluster and
// PinnedBy without FetchedOnDemand.
func BuildResourceSnapshot(c Contents) *ResourceSnapshot {
	if c.Types == nil {
		c.Types = envoyTypes
	}
	if c.EndpointsOf == nil {
		c.EndpointsOf = func(*resource.Resource) string { return "" }
	}
	n := len(c.Types.list)
	w := &ResourceSnapshot{
		types:       c.Types,
		lists:       make([]*GroupList, n),
		endpointsOf: c.EndpointsOf,
		clustersOf:  c.ClustersOf,
		fetched:     c.FetchedOnDemand,
	}
	if w.fetched != nil {
		w.empty, w.pinned = c.EmptyCluster, &pinnedClusters{by: c.PinnedBy}
	}
	for i := range c.Types.list {
		w.lists[i] = noGroups.WithGroups(c.Groups[c.Types.list[i].URL])
	}
	return w
}

// With returns a copy of w in which one type has the ResourceGroups in list; w is not modified. It
// returns w itself if the type is not in its table, or has this list.
func (w *ResourceSnapshot) With(typeURL string, list *GroupList) *ResourceSnapshot {
	at := w.types.positionOf(typeURL)
	if at < 0 || w.lists[at] == list {
		return w
	}
	next := *w
	next.lists = slices.Clone(w.lists)
	next.lists[at] = list
	if w.pinned != nil && w.types.list[at].refersToClusters() {
		next.pinned = &pinnedClusters{by: w.pinned.by}
	}
	return &next
}

// Groups returns the ResourceGroups of a type, or nil if it has none, w is nil, or the type is not
// in w's table. The list must not be changed.
func (w *ResourceSnapshot) Groups(typeURL string) []*ResourceGroup {
	if w == nil {
		return nil
	}
	if i := w.types.positionOf(typeURL); i >= 0 {
		return w.lists[i].groups
	}
	return nil
}

// findResource returns the resource of that name of the type at an index, or nil if w has none.
func (w *ResourceSnapshot) findResource(at int, name string) *resource.Resource {
	return w.lists[at].sets.find(name)
}

// forEachNamed calls f for each name of a sorted list, with its resource, or nil if w has none. at
// is the index of the type.
func (w *ResourceSnapshot) forEachNamed(at int, names []string, f func(name string, r *resource.Resource)) {
	if len(names) == 0 {
		return
	}
	var room [8]resource.Cursor
	cursors := room[:0]
	for _, set := range w.lists[at].sets.sets {
		if set.Len() > 0 {
			cursors = append(cursors, set.Cursor())
		}
	}
	for _, n := range names {
		var r *resource.Resource
		for i := 0; i < len(cursors) && r == nil; i++ {
			r = cursors[i].Find(n)
		}
		f(n, r)
	}
}

// hasAll reports whether w has a resource for each name of a sorted list. at is the index of the
// type.
func (w *ResourceSnapshot) hasAll(at int, names []string) bool {
	all := true
	w.forEachNamed(at, names, func(_ string, r *resource.Resource) { all = all && r != nil })
	return all
}

// countPreceding returns the number of resources that sort before name, in a list that is sorted by
// name. It searches exponentially, so a small result is found quickly.
func countPreceding(list []*resource.Resource, name string) int {
	if len(list) == 0 || list[0].Name >= name {
		return 0
	}
	end := 2
	for end <= len(list) && list[end-1].Name < name {
		end *= 2
	}
	begin, end := end/2, min(end, len(list))
	for begin < end {
		if middle := (begin + end) / 2; list[middle].Name < name {
			begin = middle + 1
		} else {
			end = middle
		}
	}
	return begin
}

// isKnown reports whether a name that has no resource is known not to exist: every ResourceGroup of
// the type has looked it up or is complete. at is the index of the type.
func (w *ResourceSnapshot) isKnown(at int, name string) bool {
	for _, s := range w.lists[at].groups {
		if !s.isKnown(name) {
			return false
		}
	}
	return true
}

// lookedUpNames returns the names that each ResourceGroup of the type at an index has looked up,
// sorted. It returns nil if w is nil, a ResourceGroup is complete, or they looked up different
// names.
func (w *ResourceSnapshot) lookedUpNames(at int) []string {
	if w == nil {
		return nil
	}
	return w.lists[at].lookedUp
}

// referencedClusters returns the names of the clusters that a resource refers to, sorted. It
// returns nil if r is not, by pointer, a resource of the type at index at. clustersOf must not be
// nil.
func (w *ResourceSnapshot) referencedClusters(at int, r *resource.Resource) []string {
	for _, s := range w.lists[at].groups {
		if s.set.Get(r.Name) == r {
			return s.referencedClusters(r, w.clustersOf)
		}
	}
	return nil
}
