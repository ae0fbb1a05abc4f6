package endpoint

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// dependsOnNode reports whether the assignments of a service depend on the caller's node: only
// endpoints on it are called (Service.spec.internalTrafficPolicy: Local), or they are preferred
// (PreferSameNode).
func dependsOnNode(svc *mesh.Service) bool {
	return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
}

// isReachable reports whether the caller may call an endpoint. Services may require the caller's
// node, and services or endpoints the caller's cluster. It does not consider networks.
func (in Input) isReachable(e *mesh.Endpoint) bool {
	return (!in.Service.NodeLocal || e.Node == in.Caller.Node) &&
		(!in.Caller.ClusterLocal && !e.Confined || e.Cluster == in.Caller.Cluster)
}
