package endpoint

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// dependsOnNode reports whether the assignments of a service depend on the caller's node, because
// endpoints on it are the only ones (Service.spec.internalTrafficPolicy) or preferred.
func dependsOnNode(svc *mesh.Service) bool {
	return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
}

// isReachable reports whether the caller may call an endpoint. It may require the caller to be on
// the same node, or in the same cluster.
func (in Input) isReachable(e *mesh.Endpoint) bool {
	return (!in.Service.NodeLocal || e.Node == in.Caller.Node) &&
		(!in.Caller.ClusterLocal && !e.Confined || e.Cluster == in.Caller.Cluster)
}
