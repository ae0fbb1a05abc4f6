package stream

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// World is the resources of all types for the clients of one class at one moment. It is immutable
// and shared by all their streams. A World is cheap to make: it refers to Shelves, and only Shelves
// whose resources changed are new in the next World.
type World struct {
	types       *Types
	shelves     [][]*Shelf
	sets        [][]*resource.Set // of the shelves
	versions    []string
	endpointsOf func(cluster *resource.Resource) string
	clustersOf  func(r *resource.Resource) []string
}

// Contents are the parameters of MakeWorld.
type Contents struct {
	// Types is the table of types. If nil, the types of Envoy are used.
	Types *Types
	// Shelves contain the resources of each type, by type URL. A type may have several Shelves:
	// their names must be disjoint, and their order must be the same in every World of a client. A
	// type without Shelves is not served.
	Shelves map[string][]*Shelf
	// EndpointsOf returns the name of the ClusterLoadAssignment that an encoded cluster waits for,
	// or "" if it waits for none. If EndpointsOf is nil, no cluster waits for endpoints.
	EndpointsOf func(cluster *resource.Resource) string
	// ClustersOf returns the names of the clusters that an encoded route configuration, listener or
	// extension refers to, in any order. It is called at most once for each resource of a Shelf,
	// and only while a client may lack clusters. If ClustersOf is nil, no resource waits for
	// clusters.
	ClustersOf func(r *resource.Resource) []string
}

// NewWorld returns a World of Envoy's types in which no resource waits for clusters (see
// Contents.ClustersOf).
func NewWorld(shelves map[string][]*Shelf, endpointsOf func(cluster *resource.Resource) string) *World {
	return MakeWorld(Contents{Shelves: shelves, EndpointsOf: endpointsOf})
}

// MakeWorld returns a World with the given contents.
func MakeWorld(c Contents) *World {
	if c.Types == nil {
		c.Types = envoyTypes
	}
	if c.EndpointsOf == nil {
		c.EndpointsOf = func(*resource.Resource) string { return "" }
	}
	n := len(c.Types.list)
	w := &World{
		types: c.Types, shelves: make([][]*Shelf, n), sets: make([][]*resource.Set, n), versions: make([]string, n),
		endpointsOf: c.EndpointsOf, clustersOf: c.ClustersOf,
	}
	for i := range c.Types.list {
		w.place(i, c.Shelves[c.Types.list[i].URL])
	}
	return w
}

// place sets the Shelves of a type, and its sets and version from them.
func (w *World) place(at int, list []*Shelf) {
	versions := make([]string, len(list))
	w.shelves[at], w.sets[at] = list, make([]*resource.Set, len(list))
	for j, s := range list {
		w.sets[at][j], versions[j] = s.set, s.set.Version()
	}
	w.versions[at] = strings.Join(versions, ".")
}

// With returns a copy of w with other Shelves of one type. It returns w itself if the type is not
// in its table.
func (w *World) With(typeURL string, list []*Shelf) *World {
	at := w.types.place(typeURL)
	if at < 0 {
		return w
	}
	next := *w
	next.shelves, next.sets, next.versions = slices.Clone(w.shelves), slices.Clone(w.sets), slices.Clone(w.versions)
	next.place(at, list)
	return &next
}

// Shelves returns the Shelves of a type, or nil if w is nil or the type is not in its table. The
// list must not be changed.
func (w *World) Shelves(typeURL string) []*Shelf {
	if w == nil {
		return nil
	}
	if i := w.types.place(typeURL); i >= 0 {
		return w.shelves[i]
	}
	return nil
}

// get returns the resource of that name, or nil if w has none.
func (w *World) get(at int, name string) *resource.Resource {
	for _, s := range w.shelves[at] {
		if r := s.set.Get(name); r != nil {
			return r
		}
	}
	return nil
}

// each calls f for each name of a sorted list, with its resource or nil if w has none.
func (w *World) each(at int, names []string, f func(name string, r *resource.Resource)) {
	if len(w.shelves[at]) != 1 {
		for _, n := range names {
			f(n, w.get(at, n))
		}
		return
	}
	rest := w.shelves[at][0].set.List()
	for _, n := range names {
		if len(rest) == 0 || rest[0].Name != n {
			rest = rest[preceding(rest, n):]
		}
		if len(rest) > 0 && rest[0].Name == n {
			f(n, rest[0])
			rest = rest[1:]
		} else {
			f(n, nil)
		}
	}
}

// preceding returns the number of resources that sort before name, in a list that is sorted by
// name. It searches exponentially, so a small result is found quickly.
func preceding(list []*resource.Resource, name string) int {
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

// knows reports whether a missing name is known not to exist. It returns false if any Shelf of the
// type has not looked the name up yet.
func (w *World) knows(at int, name string) bool {
	for _, s := range w.shelves[at] {
		if !s.knows(name) {
			return false
		}
	}
	return true
}

// asked returns the names of a type that were looked up, sorted. It returns nil unless the type has
// exactly one Shelf.
func (w *World) asked(at int) []string {
	if w == nil || len(w.shelves[at]) != 1 {
		return nil
	}
	return w.shelves[at][0].asked
}

// refers returns the clusters that a resource refers to, sorted. It returns nil if r is not a
// resource of w. clustersOf must not be nil.
func (w *World) refers(at int, r *resource.Resource) []string {
	for _, s := range w.shelves[at] {
		if s.set.Get(r.Name) == r {
			return s.refers(r, w.clustersOf)
		}
	}
	return nil
}
