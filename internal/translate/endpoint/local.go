package endpoint

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// byNode says whether it matters to callers of a service on which node they are: it is reached there only
// (Service.spec.internalTrafficPolicy), or there first.
func byNode(svc *mesh.Service) bool {
	return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
}

// clusterLocal says whether a service is reached within the caller's own cluster only (MeshConfig.serviceSettings). The most
// exact of the hosts that cover it counts, and of equal ones the first. Without a word on it, the API server and what belongs to
// the cluster's own system is, as in Istio.
func clusterLocal(s *snapshot.Settings, host mesh.Hostname) bool {
	local, exact := false, -1
	for _, h := range [...]mesh.Hostname{mesh.Hostname("kubernetes.default.svc." + s.Domain), mesh.Hostname("*.kube-system.svc." + s.Domain)} {
		if h.Covers(host) {
			local, exact = true, 0
		}
	}
	for _, setting := range s.Mesh.GetServiceSettings() {
		for _, text := range setting.GetHosts() {
			h := mesh.Hostname(strings.ToLower(text))
			if length := len(strings.TrimPrefix(string(h), "*")); h.Covers(host) && length > exact {
				local, exact = setting.GetSettings().GetClusterLocal(), length
			}
		}
	}
	return local
}

// local says whether the caller may reach an endpoint at all: it may have to be of its node, or of its cluster.
func (in Input) local(e *mesh.Endpoint) bool {
	return (!in.Service.NodeLocal || e.Node == in.Caller.Node) && (!in.Caller.Local && !e.Confined || e.Cluster == in.Caller.Cluster)
}
