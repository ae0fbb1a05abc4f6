package telemetry

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// listenerOf returns a listener with a connection manager and a TCP proxy, with the telemetry of
// one side.
func listenerOf(n int, s *Side) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "http", AccessLog: s.HTTPLogs, Tracing: s.Tracing,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: new(routev3.RouteConfiguration)},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{
				TypedConfig: resource.Pack(new(routerv3.Router)),
			},
		}},
	}
	proxy := &tcpv3.TcpProxy{
		StatPrefix: "tcp", AccessLog: s.TCPLogs, ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "any"},
		AccessLogOptions: &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: s.LogConnected},
	}
	return &listenerv3.Listener{
		Name: fmt.Sprint(n), AccessLog: s.ListenerLogs,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: fmt.Sprintf("127.1.%d.%d", n>>8, n&255), PortSpecifier: &corev3.SocketAddress_PortValue{
				PortValue: 80,
			},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			Name: "http", FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: []string{"http/1.1"}},
			Filters: []*listenerv3.Filter{networkFilter("envoy.filters.network.http_connection_manager", manager)},
		}},
		DefaultFilterChain: &listenerv3.FilterChain{
			Filters: []*listenerv3.Filter{networkFilter("envoy.filters.network.tcp_proxy", proxy)},
		},
	}
}

func networkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name:       name,
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(config)},
	}
}

// clustersOf makes clusters of the names, and the clusters of bootstraps and of all proxies.
func clustersOf(names map[string]bool) []*clusterv3.Cluster {
	list := []*clusterv3.Cluster{clusterOf("any"), clusterOf(bootstrapService)}
	for n := range names {
		list = append(list, clusterOf(n))
	}
	return list
}

func clusterOf(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(1e9),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}
}
