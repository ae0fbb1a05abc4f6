package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// delta is the incremental variant: a response contains new, changed and deleted resources.
type delta struct{}

var _ variant = delta{}

// method returns the full name of the gRPC method DeltaAggregatedResources.
func (delta) method() string {
	return discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
}

// incremental returns true: responses contain only changes.
func (delta) incremental() bool { return true }

// open returns the first request for a type. It subscribes to all resources by naming none, which
// older servers support as well as "*", and sends the versions held.
func (delta) open(c *collection, node *corev3.Node) proto.Message {
	return &discoveryv3.DeltaDiscoveryRequest{
		Node:                    node,
		TypeUrl:                 c.typeURL,
		InitialResourceVersions: c.initialVersions(),
	}
}

// acknowledge returns the request that acknowledges r, with its type and nonce.
func (delta) acknowledge(r response) proto.Message {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.typeURL, ResponseNonce: r.nonce}
}
