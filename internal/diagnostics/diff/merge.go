package diff

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// Merge adds the report of another replica on the same change of the same mesh, and on other
// proxies. Groups with equal changes become one, with the calls of r's group; Problems are united.
// NewProxies and GoneProxies of other are ignored.
func (r *Report) Merge(other *Report) {
	r.Proxies += other.Proxies
	r.Changed += other.Changed
	byContent := map[string]int{}
	for i := range r.Groups {
		byContent[r.Groups[i].content()] = i
	}
	for _, g := range other.Groups {
		if i, known := byContent[g.content()]; known {
			r.Groups[i].Proxies = append(r.Groups[i].Proxies, g.Proxies...)
			slices.Sort(r.Groups[i].Proxies)
		} else {
			r.Groups = append(r.Groups, g)
		}
	}
	sortGroups(r.Groups)
	r.NewProblems = mergeProblems(r.NewProblems, other.NewProblems)
	r.ResolvedProblems = mergeProblems(r.ResolvedProblems, other.ResolvedProblems)
}

// content returns the group as text, without its proxies, and without its calls, which name
// addresses of the first proxy. It is equal for groups that Merge joins.
func (g Group) content() string {
	g.Proxies, g.Calls = nil, nil
	text, err := json.Marshal(g)
	if err != nil {
		return ""
	}
	return string(text)
}

// sortGroups sorts groups by their size, the largest first, and then by their first proxy.
func sortGroups(list []Group) {
	slices.SortStableFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Proxies), len(a.Proxies)), cmp.Compare(a.Proxies[0], b.Proxies[0]))
	})
}

// mergeProblems returns the Problems of both lists, sorted and without duplicates.
func mergeProblems(a, b []debug.Problem) []debug.Problem {
	list := slices.Concat(a, b)
	slices.SortFunc(list, func(x, y debug.Problem) int { return cmp.Compare(x.String(), y.String()) })
	return slices.Compact(list)
}
