package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

func address(host string, port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// cluster returns a static cluster with one endpoint.
func cluster(name, host string, port int) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(5 * time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{
				LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
					Endpoint: &endpointv3.Endpoint{Address: address(host, port)},
				}}},
			}},
		},
	}
}

// badCluster returns a cluster that Envoy rejects.
func badCluster() *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: "bad", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}}
}

// badListener returns a listener that Envoy rejects.
func badListener() *listenerv3.Listener {
	return &listenerv3.Listener{Name: "bad", Address: address("no address", 1)}
}

// listener returns an HTTP listener that routes everything to one cluster.
func listener(
	t *testing.T,
	direction corev3.TrafficDirection,
	host string,
	port int,
	statPrefix, to string,
) *listenerv3.Listener {
	t.Helper()
	name := host + "_" + strconv.Itoa(port)
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: statPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name:             strconv.Itoa(port),
			ValidateClusters: wrapperspb.Bool(false),
			VirtualHosts: []*routev3.VirtualHost{
				{Name: "reviews.default.svc.cluster.local:9080", Domains: []string{"*"}, Routes: []*routev3.Route{{
					StatPrefix: "all",
					Match:      &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{
						ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to}, Timeout: durationpb.New(0),
					}},
				}}},
			},
		}},
		HttpFilters: []*hcmv3.HttpFilter{
			{
				Name:       "envoy.filters.http.router",
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})},
			},
		},
	}
	return oneFilter(t, name, address(host, port), direction, "envoy.filters.network.http_connection_manager", manager)
}

// tcpListener returns a listener that proxies all connections to one cluster, whose name it has in
// statistics.
func tcpListener(t *testing.T, port int, to string) *listenerv3.Listener {
	t.Helper()
	proxy := &tcpv3.TcpProxy{StatPrefix: to, ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: to}}
	return oneFilter(
		t,
		fmt.Sprintf("127.0.0.1_%d", port),
		address("127.0.0.1", port),
		corev3.TrafficDirection_OUTBOUND,
		"envoy.filters.network.tcp_proxy",
		proxy,
	)
}

func oneFilter(
	t *testing.T,
	name string,
	at *corev3.Address,
	direction corev3.TrafficDirection,
	filter string,
	config proto.Message,
) *listenerv3.Listener {
	t.Helper()
	return &listenerv3.Listener{
		Name: name, Address: at, TrafficDirection: direction,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: filter, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, config)},
		}}}},
	}
}

func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// service is an application beside the proxy. /slow responds when it is released.
type service struct {
	port    int
	begun   chan struct{} // one for each request to /slow
	release chan struct{}
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{port: serving.FreePort(t), begun: make(chan struct{}, 16), release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		s.begun <- struct{}{}
		select {
		case <-s.release:
			fmt.Fprint(w, "finished")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc(
		"/metrics",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "app_total 1\n") },
	)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, mux)
	return s
}

// serve serves until the test ends.
func serve(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}
