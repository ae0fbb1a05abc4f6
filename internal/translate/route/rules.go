package route

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// rules indexes the VirtualServices of a scope that have HTTP routes.
type rules struct {
	// tried are all of them in the order of compareRules.
	tried []*snapshot.VirtualService
	// naming are the VirtualServices by host, which may be a wildcard, in that order.
	naming *cow.Map[mesh.Hostname, []*snapshot.VirtualService]
	// wildcards is the number of wildcard hosts by length. lengths are its keys, the longest first.
	wildcards map[int]int
	lengths   []int
}

// compareRules orders VirtualServices of one host by precedence, as in the View: by ExportRank,
// then the oldest first.
func compareRules(a, b *snapshot.VirtualService) int {
	return cmp.Or(cmp.Compare(a.ExportRank(), b.ExportRank()), config.CompareAge(a.Config, b.Config))
}

// newRules returns the index of list, which must be sorted by compareRules. VirtualServices without
// HTTP routes are left out.
func newRules(list []*snapshot.VirtualService) *rules {
	none := &rules{naming: cow.New[mesh.Hostname, []*snapshot.VirtualService](), wildcards: map[int]int{}}
	return none.withList(list)
}

// withList returns the index of list, which must be sorted by compareRules, or r itself if both
// have the same VirtualServices with HTTP routes. r is not modified. Apart from comparing the
// lists, it costs only what differs.
func (r *rules) withList(list []*snapshot.VirtualService) *rules {
	next := &rules{tried: withRoutes(list), wildcards: maps.Clone(r.wildcards)}
	gone, come := changedRules(r.tried, next.tried)
	if len(gone)+len(come) == 0 {
		return r
	}
	edit := r.naming.Edit()
	for _, vs := range gone {
		for _, h := range vs.Hosts {
			edit.Set(
				h,
				slices.DeleteFunc(slices.Clone(edit.Get(h)), func(o *snapshot.VirtualService) bool { return o == vs }),
			)
			next.countWildcard(h, -1)
		}
	}
	for _, vs := range come {
		for _, h := range vs.Hosts {
			others := edit.Get(h)
			at, _ := slices.BinarySearchFunc(others, vs, compareRules)
			edit.Set(h, slices.Insert(slices.Clone(others), at, vs))
			next.countWildcard(h, 1)
		}
	}
	next.naming = edit.Done()
	next.lengths = slices.Sorted(maps.Keys(next.wildcards))
	slices.Reverse(next.lengths)
	return next
}

// countWildcard adds n to the number of wildcard hosts of the length of host in r.wildcards; it
// does nothing for other hosts.
func (r *rules) countWildcard(host mesh.Hostname, n int) {
	if !host.IsWildcard() {
		return
	}
	if r.wildcards[len(host)] += n; r.wildcards[len(host)] == 0 {
		delete(r.wildcards, len(host))
	}
}

// withRoutes returns a new list of the elements of list that have HTTP routes, in the same order.
func withRoutes(list []*snapshot.VirtualService) []*snapshot.VirtualService {
	kept := make([]*snapshot.VirtualService, 0, len(list))
	for _, vs := range list {
		if len(vs.Spec.GetHttp()) > 0 {
			kept = append(kept, vs)
		}
	}
	return kept
}

// changedRules returns the elements that are only in old (gone) and only in now (come); both lists
// must be sorted by compareRules. Elements are compared by pointer. If an element was replaced by
// one with the same sort key, the old one is in gone and the new one in come.
func changedRules(old, now []*snapshot.VirtualService) (gone, come []*snapshot.VirtualService) {
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) > 0 && len(now) > 0 && old[0] == now[0]:
			old, now = old[1:], now[1:]
		case len(now) == 0 || len(old) > 0 && compareRules(old[0], now[0]) <= 0:
			gone, old = append(gone, old[0]), old[1:]
		default:
			come, now = append(come, now[0]), now[1:]
		}
	}
	return gone, come
}

// rulesFor iterates over the VirtualServices of a host, which may be a wildcard, by precedence:
// first the exact host, then covering wildcards, the most specific first. VirtualServices of one
// host are in the order of compareRules.
func (r *rules) rulesFor(host mesh.Hostname) iter.Seq[*snapshot.VirtualService] {
	return func(yield func(*snapshot.VirtualService) bool) {
		if !host.IsWildcard() {
			for _, vs := range r.naming.Get(host) {
				if !yield(vs) {
					return
				}
			}
		}
		tail := strings.TrimPrefix(string(host), "*")
		for _, n := range r.lengths {
			if n-1 > len(tail) {
				continue
			}
			for _, vs := range r.naming.Get(mesh.Hostname("*" + tail[len(tail)-n+1:])) {
				if !yield(vs) {
					return
				}
			}
		}
	}
}
