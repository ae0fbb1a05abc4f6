package policy

import (
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Locality is how a cluster prefers near endpoints. The zero value is: not at all.
type Locality struct {
	// Setting is nil if locality plays no part.
	Setting *networking.LocalityLoadBalancerSetting
	// Failover says that endpoints are put into priorities by distance. Without outlier detection Envoy would never find
	// the near ones unhealthy and never use the far ones, so it takes that, or a service or a setting that asks for it itself.
	Failover bool
	// Zones is set where the choice among the zones of a region is Envoy's: how, or that it has none. Distance is then a
	// matter of regions alone.
	Zones *networking.ZoneAwareLoadBalancerSetting
}

// LocalityOf gives the preference of a cluster with the policy p: as the DestinationRule says, else as the service's
// traffic distribution asks, else as the mesh says (MeshConfig.zoneAwareLbSetting, localityLbSetting).
func LocalityOf(config *meshconfig.MeshConfig, p *networking.TrafficPolicy, svc *mesh.Service) Locality {
	outlier := p.GetOutlierDetection() != nil
	if own := p.GetLoadBalancer().GetZoneAwareLbSetting(); own != nil {
		return zones(own)
	}
	if own := p.GetLoadBalancer().GetLocalityLbSetting(); own != nil {
		return locality(own, outlier)
	}
	if levels := distribution(svc.TrafficDistribution); levels != nil {
		return Locality{Setting: &networking.LocalityLoadBalancerSetting{FailoverPriority: levels}, Failover: true}
	}
	if all := config.GetZoneAwareLbSetting(); all != nil {
		return zones(all)
	}
	return locality(config.GetLocalityLbSetting(), outlier)
}

// zones gives the preference of zone aware load balancing.
func zones(s *networking.ZoneAwareLoadBalancerSetting) Locality {
	if s.Enabled != nil && !s.Enabled.Value {
		return Locality{Zones: s}
	}
	setting := &networking.LocalityLoadBalancerSetting{FailoverPriority: s.FailoverPriority}
	for _, f := range s.Failover {
		setting.Failover = append(setting.Failover, &networking.LocalityLoadBalancerSetting_Failover{From: f.From, To: f.To})
	}
	return Locality{Setting: setting, Failover: true, Zones: s}
}

func locality(s *networking.LocalityLoadBalancerSetting, outlier bool) Locality {
	if s == nil || s.Enabled != nil && !s.Enabled.Value {
		return Locality{}
	}
	return Locality{Setting: s, Failover: outlier && len(s.Distribute) == 0}
}

// Weighted says that Envoy is to weigh localities against each other (locality_weighted_lb_config). Where nothing but the
// default calls for it, it is left out, for it would overrule the load balancer's own choice among all endpoints.
func (l Locality) Weighted() bool {
	if l.Zones != nil {
		return false
	}
	s := l.Setting
	return len(s.GetDistribute()) > 0 || l.Failover && (len(s.GetFailover()) > 0 || len(s.GetFailoverPriority()) > 0)
}

// Shapes says that endpoints are not the same for callers in all localities.
func (l Locality) Shapes() bool { return l.Failover || len(l.Setting.GetDistribute()) > 0 }

// distribution gives a traffic distribution (Service.spec.trafficDistribution) as labels that near endpoints share with
// the caller, the most important first.
func distribution(preference string) []string {
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
