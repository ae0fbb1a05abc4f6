package connectivity

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// aggregate returns the calls in b.calls, with one for a namespace instead of one for each of its
// nodes. It replaces calls of all nodes of a namespace to a service, and calls to all services of a
// namespace that are not restricted, if at least two. The list is in no particular order, and By
// sorted.
func (b *topologyBuilder) aggregate() []Call {
	callers, open := namespaceMembers{}, namespaceMembers{}
	for _, n := range b.nodes {
		callers.add(n.End)
		if n.Service != "" && !n.Restricted {
			open.add(n.End)
		}
	}
	byTarget := map[End]map[End][]config.Key{}
	for k, by := range b.calls {
		addEnd(byTarget, b.nodes[k[1]].End, b.nodes[k[0]].End, by)
	}
	bySource := map[End]map[End][]config.Key{}
	for to, from := range byTarget {
		for end, by := range callers.join(from, to) {
			addEnd(bySource, end, to, by)
		}
	}
	var list []Call
	for from, to := range bySource {
		for end, by := range open.join(to, from) {
			slices.SortFunc(by, config.Key.Compare)
			list = append(list, Call{From: from, To: end, By: by})
		}
	}
	return list
}

// addEnd adds an end with its objects to the set of k.
func addEnd(sets map[End]map[End][]config.Key, k, end End, by []config.Key) {
	if sets[k] == nil {
		sets[k] = map[End][]config.Key{}
	}
	sets[k][end] = appendNew(sets[k][end], by)
}

// namespaceMembers are ends by their namespace.
type namespaceMembers map[string]map[End]bool

// add adds an end to its namespace.
func (m namespaceMembers) add(e End) {
	if m[e.Namespace] == nil {
		m[e.Namespace] = map[End]bool{}
	}
	m[e.Namespace][e] = true
}

// join returns ends with the members of a namespace replaced by the namespace if all of them, at
// least two, are there. The objects of replaced members are joined without duplicates. other, the
// other end of the calls, need not be among them, because it does not call itself.
func (m namespaceMembers) join(ends map[End][]config.Key, other End) map[End][]config.Key {
	count := map[string]int{}
	for e := range ends {
		if m[e.Namespace][e] {
			count[e.Namespace]++
		}
	}
	joined := map[End][]config.Key{}
	for _, e := range slices.SortedFunc(maps.Keys(ends), End.compare) { // the objects are the same each time
		members := m[e.Namespace]
		all := len(members)
		if members[other] {
			all--
		}
		to := e
		if n := count[e.Namespace]; members[e] && n > 1 && n >= all {
			to = End{Namespace: e.Namespace}
		}
		joined[to] = appendNew(joined[to], ends[e])
	}
	return joined
}
