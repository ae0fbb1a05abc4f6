package policy

import (
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Locality is how a cluster prefers near endpoints. The zero value has no preference.
type Locality struct {
	// Setting is nil if the localities of endpoints are ignored.
	Setting *networking.LocalityLoadBalancerSetting
	// Failover assigns priorities to endpoints by their distance. It requires outlier detection,
	// without which Envoy would never find near endpoints unhealthy and never fail over, unless a
	// service's traffic distribution or zone aware load balancing requests it.
	Failover bool
	// Zones is set if Envoy itself balances load among the zones of a region, or if that is
	// explicitly disabled. Distance then depends on the region alone.
	Zones *networking.ZoneAwareLoadBalancerSetting
}

// LocalityOf returns how a cluster of svc with the policy p, the result of Of with the same config,
// prefers near endpoints. The policy overrides the traffic distribution of the service, which
// overrides the default of the mesh. On both levels zoneAwareLbSetting takes precedence over
// localityLbSetting, which fails over only with the outlier detection of a DestinationRule: that of
// MeshConfig.defaultTrafficPolicy is ignored.
func LocalityOf(config *meshconfig.MeshConfig, p *networking.TrafficPolicy, svc *mesh.Service) Locality {
	outlier := p.GetOutlierDetection() != nil &&
		p.OutlierDetection != config.GetDefaultTrafficPolicy().GetOutlierDetection()
	if own := p.GetLoadBalancer().GetZoneAwareLbSetting(); own != nil {
		return fromZoneAware(own)
	}
	if own := p.GetLoadBalancer().GetLocalityLbSetting(); own != nil {
		return fromLocalitySetting(own, outlier)
	}
	if levels := distributionLabels(svc.TrafficDistribution); levels != nil {
		return Locality{Setting: &networking.LocalityLoadBalancerSetting{FailoverPriority: levels}, Failover: true}
	}
	if all := config.GetZoneAwareLbSetting(); all != nil {
		return fromZoneAware(all)
	}
	return fromLocalitySetting(config.GetLocalityLbSetting(), outlier)
}

// fromZoneAware returns the preference of a setting of zone aware load balancing, with its failover
// rules. If it is disabled, Setting is nil, Failover is false, and Zones makes Envoy disable it
// too.
func fromZoneAware(s *networking.ZoneAwareLoadBalancerSetting) Locality {
	if s.Enabled != nil && !s.Enabled.Value {
		return Locality{Zones: s}
	}
	setting := &networking.LocalityLoadBalancerSetting{FailoverPriority: s.FailoverPriority}
	for _, f := range s.Failover {
		setting.Failover = append(
			setting.Failover,
			&networking.LocalityLoadBalancerSetting_Failover{From: f.From, To: f.To},
		)
	}
	return Locality{Setting: setting, Failover: true, Zones: s}
}

// fromLocalitySetting returns the preference of a locality setting. Without one, or if it is
// disabled, the result is zero. It fails over only with outlier detection and without explicit
// shares (distribute).
func fromLocalitySetting(s *networking.LocalityLoadBalancerSetting, outlier bool) Locality {
	if s == nil || s.Enabled != nil && !s.Enabled.Value {
		return Locality{}
	}
	return Locality{Setting: s, Failover: outlier && len(s.Distribute) == 0}
}

// Weighted reports whether Envoy balances load among localities by weight
// (locality_weighted_lb_config): with shares (distribute), or with failover that is in effect and
// names regions or labels. It returns false for zone-aware routing, and if only default settings
// are in effect, because weights would override the load balancer's choice among all endpoints.
func (l Locality) Weighted() bool {
	if l.Zones != nil {
		return false
	}
	s := l.Setting
	return len(s.GetDistribute()) > 0 || l.Failover && (len(s.GetFailover()) > 0 || len(s.GetFailoverPriority()) > 0)
}

// Shapes reports whether the load assignment of a cluster depends on the caller's locality. It does
// with failover or a distribution.
func (l Locality) Shapes() bool { return l.Failover || len(l.Setting.GetDistribute()) > 0 }

// distributionLabels returns the labels that endpoints must share with the caller for a traffic
// distribution (Service.spec.trafficDistribution), the most important first: network, region and
// zone, and for PreferSameNode also sub-zone and node. It returns nil if the value is unknown or
// empty.
func distributionLabels(preference string) []string {
	zone := []string{label.TopologyNetwork.Name, corev1.LabelTopologyRegion, corev1.LabelTopologyZone}
	switch preference {
	case corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose:
		return zone
	case corev1.ServiceTrafficDistributionPreferSameNode:
		return append(zone, label.TopologySubzone.Name, corev1.LabelHostname)
	default:
		return nil
	}
}
