package bootstrap

import (
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// staticListeners returns the listeners for Prometheus and the kubelet, which traffic capture
// bypasses. Each serves a single path, because the servers behind them, such as the admin
// interface, must not be reachable from the network.
func staticListeners(in Input, f family, compressors []*hcmv3.HttpFilter) []*listenerv3.Listener {
	forMetrics := f.wildcards
	if in.MetricsLocalhostOnly {
		forMetrics = f.loopbacks()
	}
	return []*listenerv3.Listener{
		singlePathListener(forMetrics, in.PrometheusPort, "stats", "/stats/prometheus", "/stats/envoy",
			prometheusCluster, compressors),
		singlePathListener(f.wildcards, in.StatusPort, "agent", "/healthz/ready", "", agentCluster, nil),
	}
}

// singlePathListener returns a listener on the addresses that routes one path to a cluster;
// everything else is 404. The match is exact except for the query: with a prefix match,
// "/stats/prometheus/../../config_dump" would depend on Envoy's path normalization.
func singlePathListener(
	addresses []string, port uint32, statPrefix, path, rewritten, cluster string, filters []*hcmv3.HttpFilter,
) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: statPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{{
				Name:    "backend",
				Domains: []string{"*"},
				Routes: []*routev3.Route{{
					Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{
						ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}, PrefixRewrite: rewritten,
					}},
				}},
			}},
		}},
		HttpFilters: append(filters[:len(filters):len(filters)], &hcmv3.HttpFilter{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: mustPack(&routerv3.Router{})},
		}),
	}
	l := &listenerv3.Listener{
		// Shown in config dumps. No listener of a control plane has such a name.
		Name:    "static_" + statPrefix,
		Address: socketAddress(addresses[0], port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: mustPack(manager)},
		}}}},
		// The kubelet must reach a proxy that is at its connection limit, or it would restart it.
		IgnoreGlobalConnLimit: true,
	}
	for _, more := range addresses[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses,
			&listenerv3.AdditionalAddress{Address: socketAddress(more, port)})
	}
	l.StatPrefix = addresses[0] + "_" + strconv.FormatUint(uint64(port), 10)
	return l
}
