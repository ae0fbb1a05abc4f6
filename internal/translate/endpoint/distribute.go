package endpoint

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// applyDistribute sets the weights of localities, in place, to the shares in the first entry that
// matches the caller's locality (LocalityLoadBalancerSetting.distribute). The most specific pattern
// that matches a locality decides; localities without one, or whose pattern has share 0, are
// removed. If several localities have one pattern, its share is split by the weights of their
// endpoints. The result is sorted by locality; if no entry matches the caller, it is groups
// unchanged.
func applyDistribute(
	groups []*group,
	caller mesh.Locality,
	entries []*networking.LocalityLoadBalancerSetting_Distribute,
) []*group {
	i := slices.IndexFunc(
		entries,
		func(d *networking.LocalityLoadBalancerSetting_Distribute) bool {
			return matchesLocality(d.GetFrom(), caller)
		},
	)
	if i < 0 {
		return groups
	}
	to := entries[i].GetTo()
	left := slices.Clone(groups)
	var out []*group
	for _, pattern := range slices.SortedFunc(maps.Keys(to), compareSpecificity) {
		var under []*group
		left = slices.DeleteFunc(left, func(g *group) bool {
			if !matchesLocality(pattern, g.locality) {
				return false
			}
			under = append(under, g)
			return true
		})
		if to[pattern] == 0 {
			continue
		}
		splitShare(under, to[pattern])
		out = append(out, under...)
	}
	slices.SortFunc(out, func(a, b *group) int { return compareLocalities(a.locality, b.locality) })
	return out
}

// splitShare sets the weight of each group to its part of share, in proportion to the current
// weights. The sum of these must be positive, unless groups is empty. Parts are rounded up.
func splitShare(groups []*group, share uint32) {
	var total uint64
	for _, g := range groups {
		total += uint64(g.weight)
	}
	for _, g := range groups {
		g.weight = uint32((uint64(g.weight)*uint64(share) + total - 1) / total)
	}
}

// matchesLocality reports whether a locality matches a pattern: "*", "region", "region/*",
// "region/zone/*", "region/zone/subzone". A zone or subzone that is missing matches any. A pattern
// without a region, such as "", matches only localities without one.
func matchesLocality(pattern string, l mesh.Locality) bool {
	p := mesh.ParseLocality(pattern)
	return (p.Region == "*" || p.Region == l.Region) && matchesPart(p.Zone, l.Zone) && matchesPart(p.SubZone, l.SubZone)
}

// matchesPart reports whether a zone or subzone matches its part of a pattern: "*" and "" match
// any, all other patterns only the same text.
func matchesPart(pattern, part string) bool {
	return pattern == "*" || pattern == "" || pattern == part
}

// compareSpecificity orders locality patterns, most specific first, then by name.
func compareSpecificity(a, b string) int {
	return cmp.Or(cmp.Compare(specificity(b), specificity(a)), strings.Compare(a, b))
}

// specificity returns how many parts of a locality pattern are neither empty nor a wildcard.
func specificity(pattern string) int {
	n := 0
	for part := range strings.SplitSeq(pattern, "/") {
		if part != "" && part != "*" {
			n++
		}
	}
	return n
}
