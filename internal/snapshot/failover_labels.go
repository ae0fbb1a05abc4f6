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

// FailoverLabels gives the names of the labels by which endpoints may be near or far for having the same value as the caller
// (failoverPriority of DestinationRules and of the mesh), but for those of the topology. They are sorted.
func (s *Snapshot) FailoverLabels() []string { return s.destinationRules.nearLabels }

// labelNames is a set of them.
type labelNames map[string]struct{}

// ofRule adds what a DestinationRule names.
func (n labelNames) ofRule(c *config.Config) {
	spec := config.Spec[*networking.DestinationRule](c)
	n.ofPolicy(spec.GetTrafficPolicy())
	for _, s := range spec.GetSubsets() {
		n.ofPolicy(s.GetTrafficPolicy())
	}
}

func (n labelNames) ofPolicy(p *networking.TrafficPolicy) {
	n.of(p.GetLoadBalancer().GetLocalityLbSetting(), p.GetLoadBalancer().GetZoneAwareLbSetting())
	for _, s := range p.GetPortLevelSettings() {
		n.of(s.GetLoadBalancer().GetLocalityLbSetting(), s.GetLoadBalancer().GetZoneAwareLbSetting())
	}
}

func (n labelNames) of(locality *networking.LocalityLoadBalancerSetting, zones *networking.ZoneAwareLoadBalancerSetting) {
	for _, list := range [][]string{locality.GetFailoverPriority(), zones.GetFailoverPriority()} {
		for _, entry := range list {
			if !strings.Contains(entry, "=") && !topology(entry) {
				n[entry] = struct{}{}
			}
		}
	}
}

// topology says that a label is about where something runs, which is known of every proxy.
func topology(name string) bool {
	switch name {
	case corev1.LabelTopologyRegion, corev1.LabelTopologyZone, label.TopologySubzone.Name, label.TopologyNetwork.Name, label.TopologyCluster.Name:
		return true
	default:
		return false
	}
}

// nearest gives the names of all namespaces and of the mesh.
func nearest(byNamespace map[string]labelNames, settings *Settings) []string {
	all := labelNames{}
	all.of(settings.Mesh.GetLocalityLbSetting(), settings.Mesh.GetZoneAwareLbSetting())
	for _, names := range byNamespace {
		maps.Copy(all, names)
	}
	return slices.Sorted(maps.Keys(all))
}
