package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// maxResponse is the size of the largest response that is read.
const maxResponse = 256 << 20

// Fetch connects to the plain-text xDS port of a control plane in place of a proxy, and returns the
// resources that the proxy would get. These are all clusters and listeners, and the endpoints,
// routes and extensions to which they refer. It ends when every request is answered, nothing was
// sent for the time idle, or ctx ends; resources not sent until then are missing. It returns an
// error if the control plane cannot be reached, refuses the proxy, or has sent no clusters or no
// listeners until then.
func Fetch(ctx context.Context, address string, node *corev3.Node, idle time.Duration) (*explain.Resources, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	f := &fetcher{stream: stream, node: node, types: map[string]*typeState{}}
	f.subscribe(api.ClusterType, nil)
	f.subscribe(api.ListenerType, nil)
	timer := time.AfterFunc(idle, cancel)
	defer timer.Stop()
	for f.err == nil && f.isWaiting() {
		response, err := stream.Recv()
		if err != nil {
			if ctx.Err() == nil || !f.hasAnswer(api.ClusterType) || !f.hasAnswer(api.ListenerType) {
				return nil, fmt.Errorf("read the configuration of %s from %s: %w", node.GetId(), address, err)
			}
			break // nothing was sent for the time idle
		}
		timer.Reset(idle)
		f.receive(response)
	}
	if f.err != nil {
		return nil, fmt.Errorf("subscribe at %s: %w", address, f.err)
	}
	timer.Reset(idle)
	f.endStream()
	return f.resources(), nil
}

// fetcher is the state of one stream (SotW).
type fetcher struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *corev3.Node
	types  map[string]*typeState
	// err is the first error of a request that cannot be sent.
	err error
}

// typeState is the subscription of one type.
type typeState struct {
	names     []string
	resources map[string]*resource.Resource
	// waiting is set until the last change of the subscription is answered.
	waiting, answered bool
	version, nonce    string
}

// endStream ends the stream and waits until the control plane has ended it too, so that it no
// longer lists the proxy as connected. It ignores further responses, and returns when the context
// is done.
func (f *fetcher) endStream() {
	if f.stream.CloseSend() != nil {
		return
	}
	for {
		if _, err := f.stream.Recv(); err != nil {
			return
		}
	}
}

// isWaiting reports whether a response to any subscription is outstanding.
func (f *fetcher) isWaiting() bool {
	for _, t := range f.types {
		if t.waiting {
			return true
		}
	}
	return false
}

// hasAnswer reports whether a response of the type was received.
func (f *fetcher) hasAnswer(typeURL string) bool { return f.types[typeURL].answered }

// subscribe sends a subscription of a type to names, nil for all, and marks the type as waiting for
// a response. It does nothing if the type is subscribed to the same names already. Errors are
// handled as in send.
func (f *fetcher) subscribe(typeURL string, names []string) {
	t := f.types[typeURL]
	if t == nil {
		t = new(typeState)
		f.types[typeURL] = t
	} else if slices.Equal(t.names, names) {
		return
	}
	t.names, t.waiting = names, true
	f.send(typeURL)
}

// send sends the subscription of a type, which acknowledges the last response. Only the first
// request has the node, so it clears f.node. It stores the first error in f.err, but not io.EOF: the
// control plane has ended the stream then, and Recv returns its reason.
func (f *fetcher) send(typeURL string) {
	t := f.types[typeURL]
	err := f.stream.Send(&discoveryv3.DiscoveryRequest{
		Node: f.node, TypeUrl: typeURL, ResourceNames: t.names, VersionInfo: t.version, ResponseNonce: t.nonce,
	})
	f.node = nil // only the first request has it
	if f.err == nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
}

// receive stores the resources of a response, acknowledges it, and subscribes to the endpoints,
// extensions and routes to which all received resources refer. It ignores types that were not
// requested, and resources that cannot be decoded. A response for names replaces only the resources
// in it.
func (f *fetcher) receive(r *discoveryv3.DiscoveryResponse) {
	t := f.types[r.GetTypeUrl()]
	if t == nil {
		return // a type that was not requested
	}
	t.version, t.nonce, t.waiting, t.answered = r.GetVersionInfo(), r.GetNonce(), false, true
	f.send(r.GetTypeUrl())
	received := map[string]*resource.Resource{}
	if t.names != nil {
		maps.Copy(received, t.resources) // responses by name need not contain unchanged resources
	}
	for _, packed := range r.GetResources() {
		if x := unpack(packed, r.GetTypeUrl()); x != nil {
			received[x.Name] = x
		}
	}
	t.resources = received
	wanted := map[string][]string{}
	for _, state := range f.types {
		for _, x := range state.resources {
			for typeURL, names := range diff.References(x) {
				wanted[typeURL] = append(wanted[typeURL], names...)
			}
		}
	}
	for _, typeURL := range []string{api.EndpointType, api.ExtensionType, api.RouteType} {
		if names := wanted[typeURL]; len(names) > 0 {
			slices.Sort(names)
			f.subscribe(typeURL, slices.Compact(names))
		}
	}
}

// unpack returns a resource of a response, which may be wrapped in a Resource message. It returns
// nil if it cannot be decoded. The name of a resource without one is "".
func unpack(packed *anypb.Any, typeURL string) *resource.Resource {
	wrapped := new(discoveryv3.Resource)
	if packed.MessageIs(wrapped) && packed.UnmarshalTo(wrapped) == nil {
		packed = wrapped.GetResource()
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return nil
	}
	name := ""
	switch x := m.(type) {
	case interface{ GetClusterName() string }:
		name = x.GetClusterName()
	case interface{ GetName() string }:
		name = x.GetName()
	}
	return resource.FromBytes(name, typeURL, packed.GetValue())
}

// resources returns the received resources. Clusters and listeners are sorted by name. Named finds
// others by type and name, and returns nil if they were not received. Later responses change what
// Named finds.
func (f *fetcher) resources() *explain.Resources {
	list := func(typeURL string) []*resource.Resource {
		var all []*resource.Resource
		for _, x := range f.types[typeURL].resources {
			all = append(all, x)
		}
		slices.SortFunc(all, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
		return all
	}
	return &explain.Resources{
		Clusters:  list(api.ClusterType),
		Listeners: list(api.ListenerType),
		Named: func(typeURL, name string) *resource.Resource {
			if t := f.types[typeURL]; t != nil {
				return t.resources[name]
			}
			return nil
		},
	}
}
