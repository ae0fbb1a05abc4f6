package stream

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// World is everything that the clients of one class are to have, at one moment. It is immutable and shared by all their
// streams. A World costs little to make: it holds Shelves, and from one World to the next only those Shelves are new
// whose resources changed.
type World struct {
	types       *Types
	shelves     [][]*Shelf
	sets        [][]*resource.Set // of the shelves
	versions    []string
	endpointsOf func(cluster *resource.Resource) string
	clustersOf  func(r *resource.Resource) []string
}

// Contents are what a World is made of.
type Contents struct {
	// Types is the table of types; nil is EnvoyTypes.
	Types *Types
	// Shelves hold the resources of each type, by type URL. A type may have several; their names must be disjoint and
	// their order the same in every World of a client. A type without Shelves is not served.
	Shelves map[string][]*Shelf
	// EndpointsOf tells the name of the ClusterLoadAssignment that an encoded cluster waits for, "" if it waits for
	// none. nil: no cluster waits for any.
	EndpointsOf func(cluster *resource.Resource) string
	// ClustersOf tells the names of the clusters that an encoded route configuration, listener or extension refers to,
	// in any order. It is asked at most once for a resource on a Shelf, and only about one that changes together with
	// clusters that are new to a client. nil: nothing waits for clusters.
	ClustersOf func(r *resource.Resource) []string
}

// NewWorld makes a World of EnvoyTypes in which nothing waits for clusters (see Contents.ClustersOf).
func NewWorld(shelves map[string][]*Shelf, endpointsOf func(cluster *resource.Resource) string) *World {
	return MakeWorld(Contents{Shelves: shelves, EndpointsOf: endpointsOf})
}

// MakeWorld makes a World.
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

// place gives a type its Shelves.
func (w *World) place(at int, list []*Shelf) {
	versions := make([]string, len(list))
	w.shelves[at], w.sets[at] = list, make([]*resource.Set, len(list))
	for j, s := range list {
		w.sets[at][j], versions[j] = s.set, s.set.Version()
	}
	w.versions[at] = strings.Join(versions, ".")
}

// With gives the World as it is with other Shelves of one type.
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

// Shelves gives the Shelves of a type. The list must not be changed.
func (w *World) Shelves(typeURL string) []*Shelf {
	if w == nil {
		return nil
	}
	if i := w.types.place(typeURL); i >= 0 {
		return w.shelves[i]
	}
	return nil
}

// get finds a resource, nil if there is none.
func (w *World) get(at int, name string) *resource.Resource {
	for _, s := range w.shelves[at] {
		if r := s.set.Get(name); r != nil {
			return r
		}
	}
	return nil
}

// each calls f with each name of a list and its resource, nil if there is none.
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

// preceding counts the resources of a list sorted by name that come before one of that name.
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

// knows says whether a name that get does not find is known not to exist, rather than not looked up yet.
func (w *World) knows(at int, name string) bool {
	for _, s := range w.shelves[at] {
		if !s.knows(name) {
			return false
		}
	}
	return true
}

// asked gives the names of a type that were looked up, if they are on one Shelf.
func (w *World) asked(at int) []string {
	if w == nil || len(w.shelves[at]) != 1 {
		return nil
	}
	return w.shelves[at][0].asked
}

// refers gives the clusters that a resource of the World refers to, sorted.
func (w *World) refers(at int, r *resource.Resource) []string {
	for _, s := range w.shelves[at] {
		if s.set.Get(r.Name) == r {
			return s.refers(r, w.clustersOf)
		}
	}
	return nil
}
