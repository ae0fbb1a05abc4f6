package snapshot

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterLocal says whether a service is reached within the caller's own cluster only (MeshConfig.serviceSettings). The most
// exact of the hosts that cover it counts, and of equal ones the first. Without a word on it, the API server and what belongs to
// the cluster's own system is, as in Istio.
func (s *Settings) ClusterLocal(host mesh.Hostname) bool {
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
