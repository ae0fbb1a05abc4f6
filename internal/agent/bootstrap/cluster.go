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

// staticCluster returns a STATIC cluster with one endpoint and a connect timeout of 1 s.
func staticCluster(name string, address *corev3.Address) *clusterv3.Cluster {
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

// addressCluster returns a cluster of one address, host:port: STATIC if the host is an IP address,
// else STRICT_DNS with f.lookup and the DNS server's TTLs. Another form of address, and a port that
// is no number below 65536, are errors.
func addressCluster(name, address string, f family) (*clusterv3.Cluster, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not host:port: %w", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q: %q is not a port", address, text)
	}
	c := staticCluster(name, socketAddress(host, uint32(port)))
	if _, err := netip.ParseAddr(host); err != nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		c.DnsLookupFamily = f.lookup
		// Envoy's default of resolving every 5 s would overload the cluster's DNS in a mesh of many
		// proxies.
		c.RespectDnsTtl = true //nolint:staticcheck // its successor is unknown to many tools
	}
	return c, nil
}

// localCluster returns a STATIC cluster of one port on loopback. Its connect timeout is 250 ms.
func localCluster(name string, port uint32, f family) *clusterv3.Cluster {
	c, err := addressCluster(name, net.JoinHostPort(f.localhost, strconv.FormatUint(uint64(port), 10)), f)
	if err != nil {
		panic("bootstrap: " + err.Error()) // cannot happen: the address was built here
	}
	c.ConnectTimeout = durationpb.New(250 * time.Millisecond)
	return c
}

// socketCluster returns an HTTP/2 cluster at a Unix socket of the agent or of another server beside
// Envoy.
func socketCluster(name, path string) *clusterv3.Cluster {
	c := staticCluster(name, &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}})
	enableHTTP2(c, nil, &corev3.Http2ProtocolOptions{})
	return c
}

// enableHTTP2 sets HTTP/2, which gRPC requires, as the upstream protocol of c. It replaces all
// typed protocol options that c has. common may be nil.
func enableHTTP2(c *clusterv3.Cluster, common *corev3.HttpProtocolOptions, options *corev3.Http2ProtocolOptions) {
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": mustPack(&httpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions: common,
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: options,
					},
				},
			},
		}),
	}
}

// raiseCircuitBreakers appends thresholds to c for both priorities. They raise the limits of
// connections, pending requests and requests from Envoy's default of 1024 to 100,000.
func raiseCircuitBreakers(c *clusterv3.Cluster) {
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
