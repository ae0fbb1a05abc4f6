package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// Proxy is a proxy with its resources of both sides.
type Proxy struct {
	Name     string
	From, To *explain.Resources
}

// Report has the differences of the proxies that were added to it. The zero value has none.
type Report struct {
	// Proxies is the number of compared proxies, Different that of proxies with differences, and
	// Facts the number of compared facts.
	Proxies   int `json:"proxies"`
	Different int `json:"different"`
	Facts     int `json:"facts"`
	// Groups are the proxies with differences, by equal differences.
	Groups []Group `json:"groups,omitempty"`
}

// Group are proxies with the same differences.
type Group struct {
	Proxies []string           `json:"proxies"`
	Changes []diff.FieldChange `json:"changes"`
}

// Add compares the resources of a proxy and adds the result to r. A proxy with differences joins
// the Group of proxies with the same changes; without differences it is only counted.
func (r *Report) Add(p Proxy) {
	from, to := Facts(p.From), Facts(p.To)
	keys := maps.Clone(from)
	maps.Copy(keys, to)
	var changes []diff.FieldChange
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if from[key] != to[key] {
			changes = append(changes, diff.FieldChange{Path: key, Before: from[key], After: to[key]})
		}
	}
	r.Proxies++
	r.Facts += len(keys)
	if len(changes) == 0 {
		return
	}
	r.Different++
	equal := func(g Group) bool { return slices.Equal(g.Changes, changes) }
	if at := slices.IndexFunc(r.Groups, equal); at >= 0 {
		r.Groups[at].Proxies = append(r.Groups[at].Proxies, p.Name)
		return
	}
	r.Groups = append(r.Groups, Group{Proxies: []string{p.Name}, Changes: changes})
}

// Text returns the report for a terminal: the proxies of each group with a line for each
// difference, and a summary.
func (r *Report) Text() string {
	var b strings.Builder
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "%s:\n", strings.Join(g.Proxies, ", "))
		for _, c := range g.Changes {
			fmt.Fprintf(&b, "  %s\n", c)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d of %d proxies differ; %d facts compared\n", r.Different, r.Proxies, r.Facts)
	return b.String()
}
