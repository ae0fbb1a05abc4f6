package endpoint

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// dependsOnNode reports whether the assignments of a service depend on the caller's node: only
// endpoints on it are called (Service.spec.internalTrafficPolicy: Local), or they are preferred
// (PreferSameNode).
func dependsOnNode(svc *mesh.Service) bool {
	return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
}

// isClusterLocal reports whether callers may only call endpoints of svc in their own cluster: by
// the mesh's settings (MeshConfig.serviceSettings), or because only those on their own node are
// called. Nodes of two clusters can have the same name.
func isClusterLocal(svc *mesh.Service, settings *snapshot.Settings) bool {
	return svc.NodeLocal || settings.IsClusterLocal(svc.Host)
}

// isReachable reports whether the caller may call an endpoint. Services may require the caller's
// node, and services or endpoints the caller's cluster. It does not consider networks.
func (in Input) isReachable(e *mesh.Endpoint) bool {
	return (!in.Service.NodeLocal || e.Node == in.Caller.Node) &&
		(!in.Caller.ClusterLocal && !e.Confined || e.Cluster == in.Caller.Cluster)
}
