package serviceentry

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// trafficDistribution returns the preference for near endpoints: that of the object's annotation,
// else that of its namespace. An unknown value is a Problem.
func (r *reader) trafficDistribution() string {
	field := annotation.NetworkingTrafficDistribution.Name
	own := r.object.Annotations[field]
	if own == "" {
		inherited, _ := canonicalDistribution(r.distributions[r.object.Namespace])
		return inherited
	}
	preference, known := canonicalDistribution(own)
	if !known {
		r.addProblem(
			config.Warning,
			"metadata.annotations["+field+"]",
			"%q is none of %s (or PreferClose), %s, Any; endpoints are not preferred by distance",
			own,
			corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode,
		)
	}
	return preference
}

// canonicalDistribution returns the canonical Kubernetes name of a preference. known is false for
// an unknown value.
func canonicalDistribution(value string) (preference string, known bool) {
	switch {
	case strings.EqualFold(value, corev1.ServiceTrafficDistributionPreferClose),
		strings.EqualFold(value, corev1.ServiceTrafficDistributionPreferSameZone):
		return corev1.ServiceTrafficDistributionPreferSameZone, true
	case strings.EqualFold(value, corev1.ServiceTrafficDistributionPreferSameNode):
		return corev1.ServiceTrafficDistributionPreferSameNode, true
	default:
		return "", value == "" || strings.EqualFold(value, "Any")
	}
}
