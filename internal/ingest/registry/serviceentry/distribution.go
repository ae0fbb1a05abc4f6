package serviceentry

import (
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// trafficDistribution returns the canonical preference for near endpoints, "" for none: that of the
// object's annotation, else that of its namespace. An unknown value of the object is "" and a
// Problem.
func (r *reader) trafficDistribution() string {
	field := annotation.NetworkingTrafficDistribution.Name
	own := r.object.Annotations[field]
	if own == "" {
		inherited, _ := registry.CanonicalDistribution(r.distributions[r.object.Namespace])
		return inherited
	}
	preference, known := registry.CanonicalDistribution(own)
	if !known {
		r.addProblem(config.Warning, "metadata.annotations["+field+"]",
			"%q is none of %s (or PreferClose), %s, Any; endpoints are not preferred by distance",
			own, corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode)
	}
	return preference
}
