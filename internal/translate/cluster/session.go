package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// applySessions lets persistent sessions continue on draining endpoints, which receive no other
// requests (CommonLbConfig.override_host_status). Without this setting Envoy would end such
// sessions. It does nothing for services without persistent sessions. c.CommonLbConfig must not be
// nil.
func applySessions(c *clusterv3.Cluster, svc *mesh.Service) {
	if !svc.Session.Enabled() {
		return
	}
	c.CommonLbConfig.OverrideHostStatus = &corev3.HealthStatusSet{Statuses: []corev3.HealthStatus{
		corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DRAINING,
		corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED,
	}}
}
