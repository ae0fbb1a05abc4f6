package bootstrap

import (
	"math"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// overload limits the clients' connections: ProxyConfig.connectionSettings.globalDownstreamConnectionLimit, or as good
// as not. Without a limit Envoy warns at every start. Nil where the user sets the limit by runtime, the older way:
// Envoy refuses both together.
func overload(config *meshconfig.ProxyConfig) *overloadv3.OverloadManager {
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
			TypedConfig: packed(&downstreamv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: limit}),
		},
	}}}
}
