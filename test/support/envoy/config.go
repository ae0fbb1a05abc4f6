package envoy

import (
	"fmt"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/diagnostics/staticconfig"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// adsCluster is the name of the cluster that the bootstrap has for ADS, as pilot-agent's has.
const adsCluster = "xds-grpc"

// Config is the set of resources to load together. Any list may be empty.
type Config struct {
	Clusters  []*clusterv3.Cluster
	Endpoints []*endpointv3.ClusterLoadAssignment
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration
}

// FromResources sorts decoded resources of all types into a Config. Resources of other types fail
// the test.
func FromResources(t testing.TB, list ...*resource.Resource) Config {
	t.Helper()
	var c Config
	for _, r := range list {
		m, err := (&anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}).UnmarshalNew()
		if err != nil {
			t.Fatalf("decode %s %q: %v", r.TypeURL, r.Name, err)
		}
		switch m := m.(type) {
		case *clusterv3.Cluster:
			c.Clusters = append(c.Clusters, m)
		case *endpointv3.ClusterLoadAssignment:
			c.Endpoints = append(c.Endpoints, m)
		case *listenerv3.Listener:
			c.Listeners = append(c.Listeners, m)
		case *routev3.RouteConfiguration:
			c.Routes = append(c.Routes, m)
		default:
			t.Fatalf("%s %q cannot be put into a bootstrap", r.TypeURL, r.Name)
		}
	}
	return c
}

// Bootstrap makes one static bootstrap of the Config, in which ADS exists so that EDS, RDS and SDS
// may name it.
//
// Assignments whose cluster is in Clusters go into it, as if EDS had answered: the cluster's other
// settings (priorities, panic threshold, load balancer) are then checked with them. The others get
// a static cluster of their own.
func (c Config) Bootstrap() (*bootstrapv3.Bootstrap, error) {
	static := &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{staticADSCluster()}}
	assigned := map[string]*endpointv3.ClusterLoadAssignment{}
	for _, a := range c.Endpoints {
		assigned[a.GetClusterName()] = a
	}
	for _, cl := range c.Clusters {
		name := cl.GetEdsClusterConfig().GetServiceName()
		if name == "" {
			name = cl.GetName()
		}
		if a := assigned[name]; a != nil && cl.GetType() == clusterv3.Cluster_EDS {
			cl = staticconfig.StaticCluster(cl, a)
			delete(assigned, name)
		}
		static.Clusters = append(static.Clusters, cl)
	}
	for _, a := range c.Endpoints {
		if assigned[a.GetClusterName()] == nil {
			continue
		}
		bare := &clusterv3.Cluster{Name: a.GetClusterName()}
		static.Clusters = append(static.Clusters, staticconfig.StaticCluster(bare, a))
	}
	static.Listeners = append(static.Listeners, c.Listeners...)
	for i, r := range c.Routes {
		l, err := routeListener(i, r)
		if err != nil {
			return nil, fmt.Errorf("make a listener for routes %q: %w", r.GetName(), err)
		}
		static.Listeners = append(static.Listeners, l)
	}
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{
			Id:      "sidecar~10.0.0.1~test.default~default.svc.cluster.local",
			Cluster: "test.default",
		},
		StaticResources: static,
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType:             corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: adsCluster},
			}}},
		}},
	}, nil
}

// staticADSCluster is a cluster that ADS can name.
func staticADSCluster() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 adsCluster,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: adsCluster,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{
				{
					HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
						Endpoint: &endpointv3.Endpoint{Address: loopbackAddress(15010)},
					},
				},
			}}},
		},
	}
}

func loopbackAddress(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
