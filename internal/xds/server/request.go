package server

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// next reads a request. The node is nil where the request has none; it is used once and not kept.
func (x *session) next() (stream.Request, *corev3.Node, error) {
	if x.mode == stream.Delta {
		m := new(discoveryv3.DeltaDiscoveryRequest)
		if err := x.st.RecvMsg(m); err != nil {
			return stream.Request{}, nil, err
		}
		x.s.metrics.Received(proto.Size(m))
		return stream.Request{
			TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Subscribe: m.ResourceNamesSubscribe, Unsubscribe: m.ResourceNamesUnsubscribe,
			Held: m.InitialResourceVersions, Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
		}, m.Node, nil
	}
	m := new(discoveryv3.DiscoveryRequest)
	if err := x.st.RecvMsg(m); err != nil {
		return stream.Request{}, nil, err
	}
	x.s.metrics.Received(proto.Size(m))
	return stream.Request{
		TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Version: m.VersionInfo, Names: m.ResourceNames,
		Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
	}, m.Node, nil
}
