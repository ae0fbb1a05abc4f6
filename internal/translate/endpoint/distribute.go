package endpoint

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// distributed gives localities the weights that the first entry for the caller's locality says
// (LocalityLoadBalancerSetting.distribute). Localities that it does not mention get nothing. Where several localities fall
// under one pattern its share is split by the weights of their endpoints. Without an entry for the caller nothing changes.
func distributed(groups []*group, caller mesh.Locality, entries []*networking.LocalityLoadBalancerSetting_Distribute) []*group {
	i := slices.IndexFunc(entries, func(d *networking.LocalityLoadBalancerSetting_Distribute) bool { return matches(d.GetFrom(), caller) })
	if i < 0 {
		return groups
	}
	to := entries[i].GetTo()
	left := slices.Clone(groups)
	var out []*group
	for _, pattern := range slices.SortedFunc(maps.Keys(to), narrowFirst) {
		var under []*group
		left = slices.DeleteFunc(left, func(g *group) bool {
			if !matches(pattern, g.locality) {
				return false
			}
			under = append(under, g)
			return true
		})
		if to[pattern] == 0 {
			continue
		}
		split(under, to[pattern])
		out = append(out, under...)
	}
	slices.SortFunc(out, func(a, b *group) int { return compareLocalities(a.locality, b.locality) })
	return out
}

// split divides a share among localities by their weights, rounding up so that none ends with nothing.
func split(groups []*group, share uint32) {
	var total uint64
	for _, g := range groups {
		total += uint64(g.weight)
	}
	for _, g := range groups {
		g.weight = uint32((uint64(g.weight)*uint64(share) + total - 1) / total)
	}
}

// matches says whether a locality falls under a pattern: "*", "region", "region/*", "region/zone/*", "region/zone/subzone".
func matches(pattern string, l mesh.Locality) bool {
	p := mesh.ParseLocality(pattern)
	return (p.Region == "*" || p.Region == l.Region) && leavesOpen(p.Zone, l.Zone) && leavesOpen(p.SubZone, l.SubZone)
}

func leavesOpen(pattern, part string) bool { return pattern == "*" || pattern == "" || pattern == part }

// narrowFirst orders patterns so that one that says more goes before one that says less.
func narrowFirst(a, b string) int {
	return cmp.Or(cmp.Compare(said(b), said(a)), strings.Compare(a, b))
}

// said counts the parts of a pattern that are not left open.
func said(pattern string) int {
	n := 0
	for part := range strings.SplitSeq(pattern, "/") {
		if part != "" && part != "*" {
			n++
		}
	}
	return n
}
