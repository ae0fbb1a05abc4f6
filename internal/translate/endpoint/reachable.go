package endpoint

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// byNode says whether it matters to callers of a service on which node they are: it is reached there only
// (Service.spec.internalTrafficPolicy), or there first.
func byNode(svc *mesh.Service) bool {
	return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
}

// local says whether the caller may reach an endpoint at all: it may have to be of its node, or of its cluster.
func (in Input) local(e *mesh.Endpoint) bool {
	return (!in.Service.NodeLocal || e.Node == in.Caller.Node) && (!in.Caller.Local && !e.Confined || e.Cluster == in.Caller.Cluster)
}
