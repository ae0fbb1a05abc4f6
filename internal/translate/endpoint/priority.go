package endpoint

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// prioritized puts groups into priorities by their distance from the caller: first by the labels of failoverPriority, and
// within those by region, zone and subzone, unless only labels are asked for. Where Envoy chooses among zones itself, regions
// alone are told apart.
func prioritized(groups []*group, caller Caller, l policy.Locality) []*group {
	s, regions := l.Setting, l.Zones != nil
	if labels := s.GetFailoverPriority(); len(labels) > 0 {
		groups = byLabels(groups, caller.levels(labels))
		if len(s.GetFailover()) == 0 && !regions {
			return groups
		}
	}
	for _, g := range groups {
		to := g.locality
		if regions && to.Region == caller.Locality.Region {
			to = caller.Locality
		}
		g.priority = g.priority*distances + distance(caller.Locality, to, s.GetFailover())
	}
	closeGaps(groups)
	return groups
}

// distances is how many values distance has.
const distances = 5

// distance says how far a locality is: 0 the caller's own, 1 its zone, 2 its region, 3 another region, or the one to fail
// over to where that is said, 4 a region that is neither.
func distance(caller, l mesh.Locality, failover []*networking.LocalityLoadBalancerSetting_Failover) uint32 {
	switch {
	case caller == l:
		return 0
	case caller.Region == l.Region && caller.Zone == l.Zone:
		return 1
	case caller.Region == l.Region:
		return 2
	}
	i := slices.IndexFunc(failover, func(f *networking.LocalityLoadBalancerSetting_Failover) bool { return f.GetFrom() == caller.Region })
	if i >= 0 && failover[i].GetTo() != l.Region {
		return 4
	}
	return 3
}

// level is one entry of failoverPriority: a label, and the value that endpoints of the caller's own kind have.
type level struct{ label, value string }

// levels resolves failoverPriority for the caller. An entry "label=value" says the value itself.
func (c Caller) levels(entries []string) []level {
	var levels []level
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value = c.label(name)
		}
		levels = append(levels, level{name, value})
	}
	return levels
}

// label gives a label of the caller, "" if it has none.
func (c Caller) label(name string) string {
	switch name {
	case corev1.LabelTopologyRegion:
		return c.Locality.Region
	case corev1.LabelTopologyZone:
		return c.Locality.Zone
	case label.TopologySubzone.Name:
		return c.Locality.SubZone
	case label.TopologyNetwork.Name:
		return string(c.Network)
	case label.TopologyCluster.Name:
		return string(c.Cluster)
	case corev1.LabelHostname:
		if c.Node != "" {
			return c.Node
		}
	}
	for own := range strings.SplitSeq(c.Near, ",") {
		if value, ok := strings.CutPrefix(own, name+"="); ok {
			return value
		}
	}
	return ""
}

// byLabels splits groups by how many of the levels their endpoints share with the caller, the first one counting most:
// those that share all come first. The network is special when it is the first level: endpoints of other networks come
// behind all of the caller's, in the same order among themselves.
func byLabels(groups []*group, levels []level) []*group {
	var out []*group
	for _, g := range groups {
		split := map[uint32]*group{}
		for _, e := range g.endpoints {
			p := rank(e.Labels, levels)
			part := split[p]
			if part == nil {
				part = &group{locality: g.locality, priority: p}
				split[p] = part
				out = append(out, part)
			}
			part.add(e)
		}
	}
	slices.SortStableFunc(out, func(a, b *group) int { return compareLocalities(a.locality, b.locality) })
	closeGaps(out)
	return out
}

func rank(labels map[string]string, levels []level) uint32 {
	behind := 0
	for i, l := range levels {
		if labels[l.label] == l.value {
			continue
		}
		if i == 0 && l.label == label.TopologyNetwork.Name {
			behind = len(levels)
			continue
		}
		return uint32(behind + len(levels) - i)
	}
	return uint32(behind)
}

// closeGaps numbers the priorities anew, from 0 without gaps, as Envoy demands; their order stays.
func closeGaps(groups []*group) {
	var used []uint32
	for _, g := range groups {
		used = append(used, g.priority)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	for _, g := range groups {
		i, _ := slices.BinarySearch(used, g.priority)
		g.priority = uint32(i)
	}
}
