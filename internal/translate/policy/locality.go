package policy

import (
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// Locality is how a cluster prefers near endpoints. The zero value is: not at all.
type Locality struct {
	// Setting is nil if locality plays no part.
	Setting *networking.LocalityLoadBalancerSetting
	// Failover says that endpoints are put into priorities by distance. Without outlier detection Envoy would never find
	// the near ones unhealthy and never use the far ones, so it takes that, or a service that asks for it itself.
	Failover bool
}

// LocalityOf gives the preference of a cluster with the policy p: as the DestinationRule says, else as the service's
// traffic distribution asks, else as the mesh says (MeshConfig.localityLbSetting).
func LocalityOf(config *meshconfig.MeshConfig, p *networking.TrafficPolicy, svc *mesh.Service) Locality {
	outlier := p.GetOutlierDetection() != nil
	if own := p.GetLoadBalancer().GetLocalityLbSetting(); own != nil {
		return locality(own, outlier)
	}
	if levels := distribution(svc.TrafficDistribution); levels != nil {
		return Locality{Setting: &networking.LocalityLoadBalancerSetting{FailoverPriority: levels}, Failover: true}
	}
	return locality(config.GetLocalityLbSetting(), outlier)
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
