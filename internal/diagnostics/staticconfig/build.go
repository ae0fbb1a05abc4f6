package staticconfig

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// agentSocket is the path of the agent's socket in a pod, below the working directory of Envoy.
const agentSocket = "./var/run/secrets/workload-spiffe-uds/socket"

// builder has the decoded resources of a proxy.
type builder struct {
	clusters    []*clusterv3.Cluster
	listeners   []*listenerv3.Listener
	assignments map[string]*endpointv3.ClusterLoadAssignment
	routes      map[string]*routev3.RouteConfiguration
	extensions  map[string]*anypb.Any
}

// Build returns a bootstrap with the agent's cluster, the node of p, and the clusters and listeners
// of list. The other resources are placed in these; types without a place in a bootstrap, such as
// secrets, are left out. It returns an error if a resource cannot be decoded, or a cluster or
// listener refers to an extension that is missing.
func Build(p *mesh.Proxy, list []*resource.Resource) (*bootstrapv3.Bootstrap, error) {
	b := &builder{
		assignments: map[string]*endpointv3.ClusterLoadAssignment{},
		routes:      map[string]*routev3.RouteConfiguration{}, extensions: map[string]*anypb.Any{},
	}
	for _, r := range list {
		if err := b.add(r); err != nil {
			return nil, fmt.Errorf("decode %s %q: %w", r.TypeURL, r.Name, err)
		}
	}
	static := &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{agentCluster()}}
	for _, c := range b.clusters {
		c = b.withEndpoints(c)
		if err := b.inline(c.ProtoReflect()); err != nil {
			return nil, fmt.Errorf("cluster %q: %w", c.GetName(), err)
		}
		static.Clusters = append(static.Clusters, c)
	}
	for _, l := range b.listeners {
		if err := b.inline(l.ProtoReflect()); err != nil {
			return nil, fmt.Errorf("listener %q: %w", l.GetName(), err)
		}
		static.Listeners = append(static.Listeners, l)
	}
	return &bootstrapv3.Bootstrap{
		Node:            &corev3.Node{Id: p.ID, Cluster: p.Name + "." + p.Namespace},
		StaticResources: static,
	}, nil
}

// add decodes a resource and stores it by its type. It ignores types that have no place in a
// bootstrap, and returns an error for an unknown type or malformed content.
func (b *builder) add(r *resource.Resource) error {
	m, err := (&anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}).UnmarshalNew()
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		b.clusters = append(b.clusters, m)
	case *endpointv3.ClusterLoadAssignment:
		b.assignments[m.GetClusterName()] = m
	case *listenerv3.Listener:
		b.listeners = append(b.listeners, m)
	case *routev3.RouteConfiguration:
		b.routes[m.GetName()] = m
	case *corev3.TypedExtensionConfig:
		b.extensions[m.GetName()] = m.GetTypedConfig()
	}
	return nil
}

// withEndpoints returns an EDS cluster as a static one with its endpoints, or with none if they are
// unknown. It returns other clusters as they are. The assignment is that of its service name, or
// else of its own name.
func (b *builder) withEndpoints(c *clusterv3.Cluster) *clusterv3.Cluster {
	if c.GetType() != clusterv3.Cluster_EDS {
		return c
	}
	name := c.GetEdsClusterConfig().GetServiceName()
	if name == "" {
		name = c.GetName()
	}
	a := b.assignments[name]
	if a == nil {
		a = &endpointv3.ClusterLoadAssignment{ClusterName: name}
	}
	return StaticCluster(c, a)
}

// StaticCluster returns a copy of c as a STATIC cluster with the endpoints of a, which it shares.
func StaticCluster(c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment) *clusterv3.Cluster {
	c = proto.CloneOf(c)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.EdsClusterConfig = nil
	c.LoadAssignment = a
	return c
}

// agentCluster returns the STATIC cluster of the agent, which serves secrets at the Unix domain
// socket agentSocket. It has no other settings: HTTP/2 is not enabled.
func agentCluster() *clusterv3.Cluster {
	socket := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: agentSocket}}}
	return StaticCluster(&clusterv3.Cluster{Name: mesh.AgentCluster}, &endpointv3.ClusterLoadAssignment{
		ClusterName: mesh.AgentCluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket}},
		}}}},
	})
}
