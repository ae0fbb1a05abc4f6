package serviceentry

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// trafficDistribution gives the preference for near endpoints: of the object's annotation, else of its namespace's.
func (r *reader) trafficDistribution() string {
	field := annotation.NetworkingTrafficDistribution.Name
	own := r.object.Annotations[field]
	if own == "" {
		inherited, _ := distribution(r.distributions[r.object.Namespace])
		return inherited
	}
	preference, known := distribution(own)
	if !known {
		r.wrong(config.Warning, "metadata.annotations["+field+"]", "%q is none of %s (or PreferClose), %s, Any; endpoints are not preferred by distance",
			own, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
	return preference
}

// distribution gives a preference the one name that Kubernetes has for it now.
func distribution(value string) (preference string, known bool) {
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
