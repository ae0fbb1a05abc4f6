package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	overridev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/override_host/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Keys of the metadata envoy.lb by the protocol of endpoint pickers: the endpoints that the picker
// has chosen, and the endpoint that Envoy used.
const (
	chosenEndpoint = "x-gateway-destination-endpoint"
	servedEndpoint = "x-gateway-destination-endpoint-served"
)

// applyPickedEndpoints lets an endpoint picker choose the endpoints of an InferencePool; it does
// nothing for other services. The choice is read from metadata, because clients could send the
// header of the same name. Chosen endpoints that are not in the pool are skipped; if none remains,
// requests are balanced round robin. It replaces the load balancer and locality settings of c, and
// reports the endpoint that was used if Envoy supports that.
func (in OutboundInput) applyPickedEndpoints(c *clusterv3.Cluster) {
	if len(in.Service.PoolPorts) == 0 {
		return
	}
	served := endpointMetadata(servedEndpoint)
	if in.Proxy.Lacks.Has(view.SelectedHostKey) {
		served = nil
	}
	c.LbPolicy, c.LbConfig = clusterv3.Cluster_ROUND_ROBIN, nil
	c.CommonLbConfig.LocalityConfigSpecifier = nil
	c.LoadBalancingPolicy = loadBalancingPolicy("envoy.load_balancing_policies.override_host", &overridev3.OverrideHost{
		OverrideHostSources: []*overridev3.OverrideHost_OverrideHostSource{{Metadata: endpointMetadata(chosenEndpoint)}},
		SelectedHostKey:     served,
		FallbackPolicy: loadBalancingPolicy("envoy.load_balancing_policies.round_robin",
			new(roundrobinv3.RoundRobin)),
	})
}

// endpointMetadata returns the metadata key envoy.lb/key.
func endpointMetadata(key string) *metadatav3.MetadataKey {
	return &metadatav3.MetadataKey{Key: "envoy.lb", Path: []*metadatav3.MetadataKey_PathSegment{
		{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: key}},
	}}
}

// loadBalancingPolicy returns a list that contains one policy, the extension name with the config
// policy.
func loadBalancingPolicy(name string, policy proto.Message) *clusterv3.LoadBalancingPolicy {
	return &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(policy)},
	}}}
}
