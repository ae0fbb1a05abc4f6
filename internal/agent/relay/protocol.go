package relay

import (
	"fmt"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const adsService = "envoy.service.discovery.v3.AggregatedDiscoveryService"

// Field numbers of type_url.
const (
	sotwRequestType  protowire.Number = 4
	deltaRequestType protowire.Number = 2
	responseType     protowire.Number = 4 // in both protocols
)

// protocol is the message format of the SotW or the delta protocol.
type protocol interface {
	// methodName returns the full name of the gRPC method.
	methodName() string
	// requestType returns the type URL of a request.
	requestType(f frame) (string, error)
	// mergeRequests returns one request with the effect of two consecutive requests of the same
	// type.
	mergeRequests(older, newer frame) (frame, error)
	// newRequest returns a request of the agent, for everything of a type or for some names. have
	// are the versions that the agent has already; only delta uses them.
	newRequest(typeURL string, names []string, have map[string]string) (frame, error)
	// newStatusRequest returns a request that reports the agent's state: an error, or nil for
	// healthy.
	newStatusRequest(typeURL string, problem *rpcstatus.Status) (frame, error)
	// parseResponse decodes a response.
	parseResponse(f frame) (*response, error)
	// newAck returns the ACK of a response, or its NACK if problem is not nil.
	newAck(r *response, problem *rpcstatus.Status) (frame, error)
	// encodeResponse returns the response with the resources in r.
	encodeResponse(r *response) (frame, error)
	// encodeLate returns a response with one resource of r that the forwarded response r did not
	// contain. newest is the newest forwarded response of the type.
	encodeLate(r, newest *response, resource *discoveryv3.Resource) (frame, error)
}

// response is a decoded response of either protocol.
type response struct {
	typeURL, nonce string
	resources      []*discoveryv3.Resource
	// removed are the names of removed resources (delta).
	removed []string
	message proto.Message
}

// sotw is the state of the world protocol.
type sotw struct{}

var _ protocol = sotw{}

// methodName returns the full name of the gRPC method.
func (sotw) methodName() string { return "/" + adsService + "/StreamAggregatedResources" }

// requestType returns the type URL of an encoded request, or an error if it is malformed.
func (sotw) requestType(f frame) (string, error) { return f.stringField(sotwRequestType) }

// mergeRequests returns the newer request, because each names the whole subscription. The node,
// which only the first request has, is kept. It returns an error if either is malformed.
func (sotw) mergeRequests(older, newer frame) (frame, error) {
	var a, b discoveryv3.DiscoveryRequest
	if err := unmarshalBoth(older, &a, newer, &b); err != nil {
		return nil, err
	}
	if b.Node == nil {
		b.Node = a.GetNode()
	}
	return encodeFrame(&b)
}

// newRequest returns the encoded first request for a type. Versions of resources are ignored,
// because the SotW protocol has none.
func (sotw) newRequest(typeURL string, names []string, _ map[string]string) (frame, error) {
	return encodeFrame(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names})
}

// newStatusRequest returns an encoded request of a type with a problem, or without one if that is
// nil.
func (sotw) newStatusRequest(typeURL string, problem *rpcstatus.Status) (frame, error) {
	return encodeFrame(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ErrorDetail: problem})
}

// parseResponse decodes a response. Its resources have no names and versions of their own. It
// returns an error if the frame is malformed.
func (sotw) parseResponse(f frame) (*response, error) {
	m := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(f, m); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	r := &response{typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), message: m}
	for _, body := range m.GetResources() {
		r.resources = append(r.resources, &discoveryv3.Resource{Resource: body})
	}
	return r, nil
}

// newAck returns the encoded ACK of a response, or its NACK without a version if problem is not
// nil.
func (sotw) newAck(r *response, problem *rpcstatus.Status) (frame, error) {
	m := r.message.(*discoveryv3.DiscoveryResponse) //nolint:forcetypeassert // set by parseResponse
	out := &discoveryv3.DiscoveryRequest{TypeUrl: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: problem}
	if problem == nil {
		out.VersionInfo = m.GetVersionInfo()
	}
	return encodeFrame(out)
}

// encodeResponse encodes a response with the bodies of r.resources, without their names and
// versions. It also sets them in r.message.
func (sotw) encodeResponse(r *response) (frame, error) {
	m := r.message.(*discoveryv3.DiscoveryResponse) //nolint:forcetypeassert // set by parseResponse
	m.Resources = nil
	for _, one := range r.resources {
		m.Resources = append(m.Resources, one.GetResource())
	}
	return encodeFrame(m)
}

// encodeLate encodes a response with only this resource, and with the nonce and version of newest.
// Envoy repeats its subscription with those of the response that it received last. With older ones,
// the control plane would ignore it.
func (sotw) encodeLate(_, newest *response, resource *discoveryv3.Resource) (frame, error) {
	m := newest.message.(*discoveryv3.DiscoveryResponse) //nolint:forcetypeassert // set by parseResponse
	return encodeFrame(&discoveryv3.DiscoveryResponse{
		TypeUrl: m.GetTypeUrl(), Nonce: m.GetNonce(), VersionInfo: m.GetVersionInfo(),
		ControlPlane: m.GetControlPlane(), Resources: []*anypb.Any{resource.GetResource()},
	})
}

// delta is the incremental protocol.
type delta struct{}

var _ protocol = delta{}

// methodName returns the full name of the gRPC method.
func (delta) methodName() string { return "/" + adsService + "/DeltaAggregatedResources" }

// requestType returns the type URL of an encoded request, or an error if it is malformed.
func (delta) requestType(f frame) (string, error) { return f.stringField(deltaRequestType) }

// mergeRequests adds the older request's subscriptions, unsubscriptions and initial versions to the
// newer one, whose values win. A name that is unsubscribed and subscribed again remains a
// subscription, because the server must respond to it (xDS protocol, "Subscribing to Resources").
// Node and ACK are from the newer, or else the older request. It fails if either is malformed.
func (delta) mergeRequests(older, newer frame) (frame, error) {
	var a, b discoveryv3.DeltaDiscoveryRequest
	if err := unmarshalBoth(older, &a, newer, &b); err != nil {
		return nil, err
	}
	subscribe := difference(a.GetResourceNamesSubscribe(), b.GetResourceNamesUnsubscribe())
	unsubscribe := difference(a.GetResourceNamesUnsubscribe(), b.GetResourceNamesSubscribe())
	b.ResourceNamesSubscribe = union(subscribe, b.GetResourceNamesSubscribe())
	b.ResourceNamesUnsubscribe = union(unsubscribe, b.GetResourceNamesUnsubscribe())
	if b.Node == nil {
		b.Node = a.GetNode()
	}
	if b.ResponseNonce == "" {
		b.ResponseNonce, b.ErrorDetail = a.GetResponseNonce(), a.GetErrorDetail()
	}
	for name, version := range a.GetInitialResourceVersions() {
		if b.InitialResourceVersions == nil {
			b.InitialResourceVersions = map[string]string{}
		}
		if _, ok := b.InitialResourceVersions[name]; !ok {
			b.InitialResourceVersions[name] = version
		}
	}
	return encodeFrame(&b)
}

// newRequest returns an encoded request that subscribes to names of a type, or to all without
// names. have are the versions of resources that the agent has, by name.
func (delta) newRequest(typeURL string, names []string, have map[string]string) (frame, error) {
	return encodeFrame(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: have,
	})
}

// newStatusRequest returns an encoded request of a type with a problem, or without one if that is
// nil.
func (delta) newStatusRequest(typeURL string, problem *rpcstatus.Status) (frame, error) {
	return encodeFrame(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ErrorDetail: problem})
}

// parseResponse decodes a response with its added and changed resources and the names of removed
// ones. It returns an error if the frame is malformed.
func (delta) parseResponse(f frame) (*response, error) {
	m := &discoveryv3.DeltaDiscoveryResponse{}
	if err := proto.Unmarshal(f, m); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	return &response{
		typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), resources: m.GetResources(), removed: m.GetRemovedResources(),
		message: m,
	}, nil
}

// newAck returns the encoded ACK of a response, or its NACK if problem is not nil.
func (delta) newAck(r *response, problem *rpcstatus.Status) (frame, error) {
	return encodeFrame(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: problem,
	})
}

// encodeResponse encodes a response with the resources in r.resources. It also sets them in
// r.message.
func (delta) encodeResponse(r *response) (frame, error) {
	m := r.message.(*discoveryv3.DeltaDiscoveryResponse) //nolint:forcetypeassert // set by parseResponse
	m.Resources = r.resources
	return encodeFrame(m)
}

// encodeLate encodes a response with only this resource, and with the nonce of r, because each
// response is acknowledged separately: a NACK concerns r.
func (delta) encodeLate(r, _ *response, resource *discoveryv3.Resource) (frame, error) {
	m := r.message.(*discoveryv3.DeltaDiscoveryResponse) //nolint:forcetypeassert // set by parseResponse
	return encodeFrame(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: m.GetTypeUrl(), Nonce: m.GetNonce(), SystemVersionInfo: m.GetSystemVersionInfo(),
		ControlPlane: m.GetControlPlane(), Resources: []*discoveryv3.Resource{resource},
	})
}

// unmarshalBoth decodes the requests a and b into the two messages. It returns the first error.
func unmarshalBoth(a frame, into proto.Message, b frame, intoB proto.Message) error {
	if err := proto.Unmarshal(a, into); err != nil {
		return fmt.Errorf("decode request: %w", err)
	}
	if err := proto.Unmarshal(b, intoB); err != nil {
		return fmt.Errorf("decode request: %w", err)
	}
	return nil
}

// difference returns a new list of the names that are not in removed, in the same order.
func difference(names, removed []string) []string {
	set := make(map[string]bool, len(removed))
	for _, name := range removed {
		set[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return set[name] })
}

// union returns a new list: the names of a, then the names of b that are not in a. Duplicates
// within one of them stay.
func union(a, b []string) []string {
	set := make(map[string]bool, len(a))
	for _, name := range a {
		set[name] = true
	}
	return slices.Concat(a, slices.DeleteFunc(slices.Clone(b), func(name string) bool { return set[name] }))
}
