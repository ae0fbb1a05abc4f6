package bootstrap

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// oneEndpoint is a STATIC cluster of one endpoint.
func oneEndpoint(name string, address *corev3.Address) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
			}}}},
		},
	}
}

// clusterAt is a cluster of one address, host:port: STATIC if the host is an IP address, else resolved.
func clusterAt(name, address string, f family) (*clusterv3.Cluster, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not host:port: %w", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q: %q is not a port", address, text)
	}
	c := oneEndpoint(name, socketAddress(host, uint32(port)))
	if _, err := netip.ParseAddr(host); err != nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		c.DnsLookupFamily = f.lookup
		// Asking every 5 s whatever the answer says would be a load on the cluster's DNS, times the number of proxies.
		c.RespectDnsTtl = true //nolint:staticcheck // deprecated for a cluster extension that tools do not know as STRICT_DNS
	}
	return c, nil
}

// localCluster is a cluster of one port on loopback.
func localCluster(name string, port uint32, f family) *clusterv3.Cluster {
	c, err := clusterAt(name, net.JoinHostPort(f.localhost, strconv.FormatUint(uint64(port), 10)), f)
	if err != nil {
		panic("bootstrap: " + err.Error()) // the address was made here
	}
	c.ConnectTimeout = durationpb.New(250 * time.Millisecond)
	return c
}

// socketCluster is a cluster of gRPC at a Unix socket of the agent, or of another server beside Envoy.
func socketCluster(name, path string) *clusterv3.Cluster {
	c := oneEndpoint(name, &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}})
	http2(c, nil, &corev3.Http2ProtocolOptions{})
	return c
}

// http2 makes the cluster speak HTTP/2, as gRPC needs.
func http2(c *clusterv3.Cluster, common *corev3.HttpProtocolOptions, options *corev3.Http2ProtocolOptions) {
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(&httpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions: common,
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: options},
				},
			},
		}),
	}
}

// unlimited lifts Envoy's default limit of 1024 connections and requests.
func unlimited(c *clusterv3.Cluster) {
	for _, priority := range []corev3.RoutingPriority{corev3.RoutingPriority_DEFAULT, corev3.RoutingPriority_HIGH} {
		if c.CircuitBreakers == nil {
			c.CircuitBreakers = &clusterv3.CircuitBreakers{}
		}
		c.CircuitBreakers.Thresholds = append(c.CircuitBreakers.Thresholds, &clusterv3.CircuitBreakers_Thresholds{
			Priority:           priority,
			MaxConnections:     wrapperspb.UInt32(100000),
			MaxPendingRequests: wrapperspb.UInt32(100000),
			MaxRequests:        wrapperspb.UInt32(100000),
		})
	}
}
