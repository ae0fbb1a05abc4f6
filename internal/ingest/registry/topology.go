package registry

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Topology is where an endpoint is. Empty fields are unknown.
type Topology struct {
	Locality mesh.Locality
	Cluster  mesh.ClusterID
	Network  mesh.Network
	Node     string
}

// Labels returns the labels of an endpoint with labels for its topology added, which subsets can
// select. They replace labels of the same name. There is none for a field that is unknown. labels
// is not modified.
func (t Topology) Labels(labels map[string]string) map[string]string {
	topology := [...]struct{ key, value string }{
		{corev1.LabelTopologyRegion, t.Locality.Region},
		{corev1.LabelTopologyZone, t.Locality.Zone},
		{label.TopologySubzone.Name, t.Locality.SubZone},
		{label.TopologyCluster.Name, string(t.Cluster)},
		{label.TopologyNetwork.Name, string(t.Network)},
		{corev1.LabelHostname, t.Node},
	}
	size := len(labels)
	for _, l := range topology {
		if l.value != "" {
			size++
		}
	}
	all := make(map[string]string, size) // no larger, because there is one for each endpoint
	maps.Copy(all, labels)
	for _, l := range topology {
		if l.value != "" {
			all[l.key] = l.value
		}
	}
	return all
}

// CanonicalDistribution returns the canonical name of a preference of Kubernetes' traffic
// distribution, whose case does not matter. PreferClose is the older name of PreferSameZone; "" and
// Any are no preference, "". known is false for any other value.
func CanonicalDistribution(value string) (preference string, known bool) {
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
