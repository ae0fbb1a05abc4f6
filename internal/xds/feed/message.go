package feed

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// wire reads and writes the messages of one protocol variant. One goroutine may receive while
// another one sends.
type wire interface {
	// receive returns the next request and its size in bytes.
	receive() (stream.Request, int, error)
	// send writes a response and returns its size in bytes.
	send(s *stream.Send) (int, error)
}

type sotwWire struct{ server.SotWStream }

// receive reads a DiscoveryRequest and returns it with its size in bytes, or the stream's error.
func (w sotwWire) receive() (stream.Request, int, error) {
	m, err := w.Recv()
	if err != nil {
		return stream.Request{}, 0, err
	}
	return stream.Request{
		TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Version: m.VersionInfo, Names: m.ResourceNames,
		Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
	}, proto.Size(m), nil
}

// send writes a DiscoveryResponse and returns its size in bytes, also with an error.
func (w sotwWire) send(s *stream.Send) (int, error) {
	m := &discoveryv3.DiscoveryResponse{TypeUrl: s.TypeURL, VersionInfo: s.Version, Nonce: s.Nonce}
	for _, p := range s.Parts {
		list, _ := p.Form(stream.SotW, sotwForm).([]*anypb.Any) // the type that anys returns
		m.Resources = append(m.Resources, list...)
	}
	return proto.Size(m), w.Send(m)
}

// sotwForm returns the resources as a []*anypb.Any, in the same order, for a SotW response. A
// Payload stores the result, which all clients share.
func sotwForm(list []*resource.Resource) any {
	out := make([]*anypb.Any, len(list))
	for i, r := range list {
		out[i] = &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}
	}
	return out
}

type deltaWire struct{ server.DeltaStream }

// receive reads a DeltaDiscoveryRequest and returns it with its size in bytes, or the stream's
// error.
func (w deltaWire) receive() (stream.Request, int, error) {
	m, err := w.Recv()
	if err != nil {
		return stream.Request{}, 0, err
	}
	return stream.Request{
		TypeURL:     m.TypeUrl,
		Nonce:       m.ResponseNonce,
		Subscribe:   m.ResourceNamesSubscribe,
		Unsubscribe: m.ResourceNamesUnsubscribe,
		Held: stream.HoldingsOf(
			m.InitialResourceVersions,
		),
		Rejected: m.ErrorDetail != nil,
		Message:  m.ErrorDetail.GetMessage(),
	}, proto.Size(m), nil
}

// send writes a DeltaDiscoveryResponse with the resources of all parts, and returns its size in
// bytes, also with an error.
func (w deltaWire) send(s *stream.Send) (int, error) {
	m := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl:           s.TypeURL,
		SystemVersionInfo: s.Version,
		Nonce:             s.Nonce,
		RemovedResources:  s.Removed,
	}
	for _, p := range s.Parts {
		list, _ := p.Form(stream.Delta, deltaForm).([]*discoveryv3.Resource) // the type that resources returns
		m.Resources = append(m.Resources, list...)
	}
	return proto.Size(m), w.Send(m)
}

// deltaForm returns the resources as a []*discoveryv3.Resource, in the same order, for a delta
// response. A Payload stores the result, which all clients share.
func deltaForm(list []*resource.Resource) any {
	out := make([]*discoveryv3.Resource, len(list))
	for i, r := range list {
		out[i] = &discoveryv3.Resource{
			Name:     r.Name,
			Version:  r.Version,
			Resource: &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body},
		}
	}
	return out
}
