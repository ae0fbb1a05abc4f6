package relay

import (
	"fmt"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const service = "envoy.service.discovery.v3.AggregatedDiscoveryService"

// Numbers of the field type_url.
const (
	sotwRequestType  protowire.Number = 4
	deltaRequestType protowire.Number = 2
	responseType     protowire.Number = 4 // of both forms
)

// form is what the relay knows of SotW or delta messages.
type form interface {
	// method is the name of the gRPC method.
	method() string
	// typeOfRequest gives a request's type URL.
	typeOfRequest(f frame) (string, error)
	// join makes one request of two of a type, which says what both say.
	join(older, newer frame) (frame, error)
	// ask makes a request of the agent's own, for everything of a type or for some names. The versions are of what the agent
	// has already.
	ask(typeURL string, names []string, have map[string]string) (frame, error)
	// tell makes a message of the agent that is no request: an error, or word that there is none.
	tell(typeURL string, problem *rpcstatus.Status) (frame, error)
	// open reads a response.
	open(f frame) (*response, error)
	// acknowledge answers a response, with what is wrong with it if something is.
	acknowledge(r *response, problem *rpcstatus.Status) (frame, error)
	// replaced is a response with other resources.
	replaced(r *response) (frame, error)
}

// response is a response of either form.
type response struct {
	typeURL, nonce string
	resources      []*discoveryv3.Resource
	message        proto.Message
}

// sotw is the state of the world form.
type sotw struct{}

var _ form = sotw{}

func (sotw) method() string { return "/" + service + "/StreamAggregatedResources" }

func (sotw) typeOfRequest(f frame) (string, error) { return f.text(sotwRequestType) }

// join keeps the newer: each request says everything. Only the first of a stream has the node.
func (sotw) join(older, newer frame) (frame, error) {
	var a, b discoveryv3.DiscoveryRequest
	if err := unmarshalBoth(older, &a, newer, &b); err != nil {
		return nil, err
	}
	if b.Node == nil {
		b.Node = a.GetNode()
	}
	return encoded(&b)
}

func (sotw) ask(typeURL string, names []string, _ map[string]string) (frame, error) {
	return encoded(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names})
}

func (sotw) tell(typeURL string, problem *rpcstatus.Status) (frame, error) {
	return encoded(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ErrorDetail: problem})
}

func (sotw) open(f frame) (*response, error) {
	m := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(f, m); err != nil {
		return nil, fmt.Errorf("read a response: %w", err)
	}
	r := &response{typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), message: m}
	for _, body := range m.GetResources() {
		r.resources = append(r.resources, &discoveryv3.Resource{Resource: body})
	}
	return r, nil
}

func (sotw) acknowledge(r *response, problem *rpcstatus.Status) (frame, error) {
	m := r.message.(*discoveryv3.DiscoveryResponse) //nolint:forcetypeassert // made by open
	out := &discoveryv3.DiscoveryRequest{TypeUrl: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: problem}
	if problem == nil {
		out.VersionInfo = m.GetVersionInfo()
	}
	return encoded(out)
}

func (sotw) replaced(r *response) (frame, error) {
	m := r.message.(*discoveryv3.DiscoveryResponse) //nolint:forcetypeassert // made by open
	m.Resources = nil
	for _, one := range r.resources {
		m.Resources = append(m.Resources, one.GetResource())
	}
	return encoded(m)
}

// delta is the incremental form.
type delta struct{}

var _ form = delta{}

func (delta) method() string { return "/" + service + "/DeltaAggregatedResources" }

func (delta) typeOfRequest(f frame) (string, error) { return f.text(deltaRequestType) }

// join adds up what both subscribe to. A name that is given up and taken up again stays a subscription, which has to be
// answered (xDS protocol, "Subscribing to Resources"). Of two acknowledged responses only the later one is.
func (delta) join(older, newer frame) (frame, error) {
	var a, b discoveryv3.DeltaDiscoveryRequest
	if err := unmarshalBoth(older, &a, newer, &b); err != nil {
		return nil, err
	}
	subscribe := without(a.GetResourceNamesSubscribe(), b.GetResourceNamesUnsubscribe())
	unsubscribe := without(a.GetResourceNamesUnsubscribe(), b.GetResourceNamesSubscribe())
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
	return encoded(&b)
}

func (delta) ask(typeURL string, names []string, have map[string]string) (frame, error) {
	return encoded(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names, InitialResourceVersions: have})
}

func (delta) tell(typeURL string, problem *rpcstatus.Status) (frame, error) {
	return encoded(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ErrorDetail: problem})
}

func (delta) open(f frame) (*response, error) {
	m := &discoveryv3.DeltaDiscoveryResponse{}
	if err := proto.Unmarshal(f, m); err != nil {
		return nil, fmt.Errorf("read a response: %w", err)
	}
	return &response{typeURL: m.GetTypeUrl(), nonce: m.GetNonce(), resources: m.GetResources(), message: m}, nil
}

func (delta) acknowledge(r *response, problem *rpcstatus.Status) (frame, error) {
	return encoded(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.typeURL, ResponseNonce: r.nonce, ErrorDetail: problem})
}

func (delta) replaced(r *response) (frame, error) {
	m := r.message.(*discoveryv3.DeltaDiscoveryResponse) //nolint:forcetypeassert // made by open
	m.Resources = r.resources
	return encoded(m)
}

func unmarshalBoth(a frame, into proto.Message, b frame, intoB proto.Message) error {
	if err := proto.Unmarshal(a, into); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	if err := proto.Unmarshal(b, intoB); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	return nil
}

func without(names, gone []string) []string {
	set := make(map[string]bool, len(gone))
	for _, name := range gone {
		set[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return set[name] })
}

func union(a, b []string) []string {
	set := make(map[string]bool, len(a))
	for _, name := range a {
		set[name] = true
	}
	return append(a, slices.DeleteFunc(slices.Clone(b), func(name string) bool { return set[name] })...)
}
