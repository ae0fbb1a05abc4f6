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

// assignPriorities sets the priorities of groups by their distance from the caller: first by the
// labels of failoverPriority, then by region, zone and subzone. The latter is skipped if only
// failoverPriority is configured. If Envoy balances among zones itself (l.Zones), only regions are
// distinguished. Priorities start at 0 without gaps. It returns the groups, which may have been
// split by labels.
func assignPriorities(groups []*group, caller Caller, l policy.Locality) []*group {
	s, regions := l.Setting, l.Zones != nil
	if labels := s.GetFailoverPriority(); len(labels) > 0 {
		groups = groupByLabels(groups, caller.failoverLevels(labels))
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

// distances is the number of values of distance.
const distances = 5

// distance returns how far a locality is from the caller: 0 for its own, 1 in its zone, 2 in its
// region, 3 in another region. If an entry of failover is for the caller's region, only the region
// that it names has 3, and other regions have 4.
func distance(caller, l mesh.Locality, failover []*networking.LocalityLoadBalancerSetting_Failover) uint32 {
	switch {
	case caller == l:
		return 0
	case caller.Region == l.Region && caller.Zone == l.Zone:
		return 1
	case caller.Region == l.Region:
		return 2
	}
	i := slices.IndexFunc(
		failover,
		func(f *networking.LocalityLoadBalancerSetting_Failover) bool { return f.GetFrom() == caller.Region },
	)
	if i >= 0 && failover[i].GetTo() != l.Region {
		return 4
	}
	return 3
}

// level is one entry of failoverPriority: a label, and the value of preferred endpoints.
type level struct{ label, value string }

// failoverLevels resolves the entries of failoverPriority for the caller. An entry "label=value"
// has that value; an entry "label" has the caller's value, which may be "".
func (c Caller) failoverLevels(entries []string) []level {
	var levels []level
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value = c.labelValue(name)
		}
		levels = append(levels, level{name, value})
	}
	return levels
}

// labelValue returns the value of a label of the caller, or "" if it has none. Labels of topology
// come from its locality, network and cluster; kubernetes.io/hostname is its node, if that is
// known. All others, and kubernetes.io/hostname otherwise, are looked up in c.FailoverLabels.
func (c Caller) labelValue(name string) string {
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
	for own := range strings.SplitSeq(c.FailoverLabels, ",") {
		if value, ok := strings.CutPrefix(own, name+"="); ok {
			return value
		}
	}
	return ""
}

// groupByLabels splits groups by how many levels their endpoints share with the caller, from the
// first level without interruption. It sets their priorities: 0 for endpoints that share all
// levels, more for fewer, without gaps. If the first level is the network, endpoints of other
// networks come after all of the caller's, in the same order. The result is sorted by locality.
func groupByLabels(groups []*group, levels []level) []*group {
	var out []*group
	for _, g := range groups {
		split := map[uint32]*group{}
		for _, e := range g.endpoints {
			p := labelPriority(e.Labels, levels)
			part := split[p]
			if part == nil {
				part = &group{locality: g.locality, priority: p}
				split[p] = part
				out = append(out, part)
			}
			part.addEndpoint(e)
		}
	}
	slices.SortStableFunc(out, func(a, b *group) int { return compareLocalities(a.locality, b.locality) })
	closeGaps(out)
	return out
}

// labelPriority returns the priority of an endpoint with labels, with gaps: 0 if it has the values
// of all levels, and more the earlier the first different level is. If the first level is the
// network, all endpoints of other networks come after endpoints of the same network.
func labelPriority(labels map[string]string, levels []level) uint32 {
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

// closeGaps renumbers the priorities of groups from 0 without gaps, as Envoy requires, in the same
// order.
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
