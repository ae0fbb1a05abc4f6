package bootstrap

import (
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// staticListeners are the ports that kubelet and Prometheus use. Capture leaves both alone. Each serves one path: what
// is behind them, the admin interface above all, is not for the network.
func staticListeners(in Input, f family, compressors []*hcmv3.HttpFilter) []*listenerv3.Listener {
	forMetrics := f.wildcards
	if in.MetricsForLocalhost {
		forMetrics = f.loopbacks()
	}
	return []*listenerv3.Listener{
		onePath(forMetrics, in.PrometheusPort, "stats", "/stats/prometheus", "/stats/envoy", prometheusCluster, compressors),
		onePath(f.wildcards, in.StatusPort, "agent", "/healthz/ready", "", agentCluster, nil),
	}
}

// onePath is a listener on the addresses that passes one path on to a cluster; everything else is 404. The match is
// exact, query aside: with a prefix, "/stats/prometheus/../../config_dump" would be Envoy's to normalise.
func onePath(addresses []string, port uint32, statPrefix, path, rewritten, cluster string, filters []*hcmv3.HttpFilter) *listenerv3.Listener {
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
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
		}),
	}
	l := &listenerv3.Listener{
		// For config dumps; no listener of a control plane is called so.
		Name:    "static_" + statPrefix,
		Address: socketAddress(addresses[0], port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(manager)},
		}}}},
		// A proxy at its limit is not a broken one: kubelet must not be refused.
		IgnoreGlobalConnLimit: true,
	}
	for _, more := range addresses[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: socketAddress(more, port)})
	}
	l.StatPrefix = addresses[0] + "_" + strconv.FormatUint(uint64(port), 10)
	return l
}
