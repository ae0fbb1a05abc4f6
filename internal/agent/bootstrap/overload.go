package bootstrap

import (
	"math"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// overloadManager limits downstream connections to
// ProxyConfig.connectionSettings.globalDownstreamConnectionLimit, default 2^31-1: without any limit
// Envoy warns at every start. It returns nil if runtimeValues sets
// overload.global_downstream_max_connections, the older way, because Envoy rejects both together.
func overloadManager(config *meshconfig.ProxyConfig) *overloadv3.OverloadManager {
	if config.GetRuntimeValues()["overload.global_downstream_max_connections"] != "" {
		return nil
	}
	limit := int64(math.MaxInt32)
	if n := config.GetConnectionSettings().GetGlobalDownstreamConnectionLimit(); n != nil {
		limit = int64(n.GetValue())
	}
	return &overloadv3.OverloadManager{ResourceMonitors: []*overloadv3.ResourceMonitor{{
		Name: "envoy.resource_monitors.global_downstream_max_connections",
		ConfigType: &overloadv3.ResourceMonitor_TypedConfig{
			TypedConfig: mustPack(&downstreamv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: limit}),
		},
	}}}
}
