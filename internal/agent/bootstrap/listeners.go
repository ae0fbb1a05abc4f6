package bootstrap

import (
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// staticListeners returns the listeners of PrometheusPort (compressed metrics of Envoy) and
// StatusPort (readiness for the kubelet), which traffic capture bypasses. With MetricsLocalhostOnly
// the first binds only loopback, otherwise all interfaces, as the second always does. Each serves
// only one path, because servers behind them, such as the admin interface, must not be reachable
// from the network.
func staticListeners(in Input, f family, compressors []*hcmv3.HttpFilter) []*listenerv3.Listener {
	forMetrics := f.wildcards
	if in.MetricsLocalhostOnly {
		forMetrics = f.loopbacks()
	}
	return []*listenerv3.Listener{
		newListener(forMetrics, in.PrometheusPort, "stats", compressors,
			singlePath{"/stats/prometheus", "/stats/envoy", prometheusCluster}),
		newListener(f.wildcards, in.StatusPort, "agent", nil, singlePath{"/healthz/ready", "", agentCluster}),
	}
}

// singlePath routes a path to a cluster, where it is rewritten if that is not empty. The match is
// exact except for the query: with a prefix match, "/stats/prometheus/../../config_dump" would
// depend on Envoy's path normalization.
type singlePath struct{ path, rewritten, cluster string }

// route returns the route of exactly this path to its cluster. If rewritten is set, it replaces the
// path.
func (p singlePath) route() *routev3.Route {
	return &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: p.path}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: p.cluster}, PrefixRewrite: p.rewritten,
		}},
	}
}

// newListener returns an HTTP listener named "static_" + statPrefix on the addresses, at least one.
// It routes the paths; all others are 404. filters are put before the router and are not changed.
// Envoy's global connection limit does not apply to it.
func newListener(
	addresses []string, port uint32, statPrefix string, filters []*hcmv3.HttpFilter, paths ...singlePath,
) *listenerv3.Listener {
	host := &routev3.VirtualHost{Name: "backend", Domains: []string{"*"}}
	for _, p := range paths {
		host.Routes = append(host.Routes, p.route())
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: statPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{host},
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
