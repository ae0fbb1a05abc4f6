package snapshot

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// IsClusterLocal reports whether callers reach a service only in their own cluster
// (MeshConfig.serviceSettings). The setting with the most specific matching host applies, and the
// first of several equally specific ones. By default the API server and the namespace kube-system
// are local, as in Istio; a setting for "*" does not change that.
func (s *Settings) IsClusterLocal(host mesh.Hostname) bool {
	local, exact := false, -1
	for _, h := range [...]mesh.Hostname{mesh.Hostname("kubernetes.default.svc." + s.Domain),
		mesh.Hostname("*.kube-system.svc." + s.Domain)} {
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
