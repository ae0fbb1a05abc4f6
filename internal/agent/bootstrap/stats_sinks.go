package bootstrap

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// statsSinks returns the configured sinks of statistics: statsd over UDP if in.Statsd is set, then
// Envoy's metrics service if envoyMetricsService has an address. It returns nil if neither is
// configured.
func statsSinks(in Input) []*metricsv3.StatsSink {
	var sinks []*metricsv3.StatsSink
	if in.Statsd != (netip.AddrPort{}) {
		address := socketAddress(in.Statsd.Addr().String(), uint32(in.Statsd.Port()))
		address.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
		sinks = append(sinks, &metricsv3.StatsSink{
			Name: "envoy.stat_sinks.statsd",
			ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: mustPack(&metricsv3.StatsdSink{
				StatsdSpecifier: &metricsv3.StatsdSink_Address{Address: address},
			})},
		})
	}
	if in.Config.GetEnvoyMetricsService().GetAddress() != "" {
		sinks = append(sinks, &metricsv3.StatsSink{
			Name: "envoy.stat_sinks.metrics_service",
			ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: mustPack(&metricsv3.MetricsServiceConfig{
				TransportApiVersion: corev3.ApiVersion_V3,
				GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: metricsCluster},
				}},
			})},
		})
	}
	return sinks
}
