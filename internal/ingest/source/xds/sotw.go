package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// sotw is the state-of-the-world variant: a response contains all objects of its type.
type sotw struct{}

var _ variant = sotw{}

// method returns the full name of the gRPC method StreamAggregatedResources.
func (sotw) method() string {
	return discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName
}

// incremental returns false: responses contain all objects of a type.
func (sotw) incremental() bool { return false }

// open returns the first request for a type. It sends no version: a restarted server may reuse
// version numbers, and does not answer a client that it considers up to date.
func (sotw) open(c *collection, node *corev3.Node) proto.Message {
	return &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: c.typeURL}
}

// acknowledge returns the request that acknowledges r, with its type, version and nonce.
func (sotw) acknowledge(r response) proto.Message {
	return &discoveryv3.DiscoveryRequest{TypeUrl: r.typeURL, VersionInfo: r.version, ResponseNonce: r.nonce}
}
