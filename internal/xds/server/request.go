package server

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// incoming is a request as it came. The node is nil where it has none; neither node nor message is kept.
type incoming struct {
	stream.Request
	node    *corev3.Node
	message proto.Message
}

// next reads a request.
func (x *session) next() (incoming, error) {
	if x.mode == stream.Delta {
		m := new(discoveryv3.DeltaDiscoveryRequest)
		if err := x.st.RecvMsg(m); err != nil {
			return incoming{}, err
		}
		x.s.metrics.Received(proto.Size(m))
		return incoming{stream.Request{
			TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Subscribe: m.ResourceNamesSubscribe, Unsubscribe: m.ResourceNamesUnsubscribe,
			Held: m.InitialResourceVersions, Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
		}, m.Node, m}, nil
	}
	m := new(discoveryv3.DiscoveryRequest)
	if err := x.st.RecvMsg(m); err != nil {
		return incoming{}, err
	}
	x.s.metrics.Received(proto.Size(m))
	return incoming{stream.Request{
		TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Version: m.VersionInfo, Names: m.ResourceNames,
		Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
	}, m.Node, m}, nil
}
