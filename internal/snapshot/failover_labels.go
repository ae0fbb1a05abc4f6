package snapshot

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// FailoverLabels returns the names of the labels whose values endpoints and callers are compared by
// (failoverPriority of DestinationRules and MeshConfig), sorted. Labels of the topology are
// excluded, because locality and network are known for every proxy.
func (s *Snapshot) FailoverLabels() []string { return s.destinationRules.failoverLabels }

// labelNames is a set of such label names.
type labelNames map[string]struct{}

// addRule adds the failover labels in the policies of a DestinationRule and its subsets.
func (n labelNames) addRule(c *config.Config) {
	spec := config.Spec[*networking.DestinationRule](c)
	n.addPolicy(spec.GetTrafficPolicy())
	for _, s := range spec.GetSubsets() {
		n.addPolicy(s.GetTrafficPolicy())
	}
}

// addPolicy adds the labels of a policy and of its port level settings.
func (n labelNames) addPolicy(p *networking.TrafficPolicy) {
	n.addSettings(p.GetLoadBalancer().GetLocalityLbSetting(), p.GetLoadBalancer().GetZoneAwareLbSetting())
	for _, s := range p.GetPortLevelSettings() {
		n.addSettings(s.GetLoadBalancer().GetLocalityLbSetting(), s.GetLoadBalancer().GetZoneAwareLbSetting())
	}
}

// addSettings adds the labels in failoverPriority of both settings, which may be nil. Entries with
// a value ("key=value") and topology labels are skipped.
func (n labelNames) addSettings(
	locality *networking.LocalityLoadBalancerSetting,
	zones *networking.ZoneAwareLoadBalancerSetting,
) {
	for _, list := range [][]string{locality.GetFailoverPriority(), zones.GetFailoverPriority()} {
		for _, entry := range list {
			if !strings.Contains(entry, "=") && !isTopologyLabel(entry) {
				n[entry] = struct{}{}
			}
		}
	}
}

// isTopologyLabel reports whether a label is one of region, zone, subzone, network or cluster,
// which are known for every proxy.
func isTopologyLabel(name string) bool {
	switch name {
	case corev1.LabelTopologyRegion,
		corev1.LabelTopologyZone,
		label.TopologySubzone.Name,
		label.TopologyNetwork.Name,
		label.TopologyCluster.Name:
		return true
	default:
		return false
	}
}

// collectFailoverLabels returns the sorted union of the labels of all namespaces and of MeshConfig.
func collectFailoverLabels(byNamespace map[string]labelNames, settings *Settings) []string {
	all := labelNames{}
	all.addSettings(settings.Mesh.GetLocalityLbSetting(), settings.Mesh.GetZoneAwareLbSetting())
	for _, names := range byNamespace {
		maps.Copy(all, names)
	}
	return slices.Sorted(maps.Keys(all))
}
