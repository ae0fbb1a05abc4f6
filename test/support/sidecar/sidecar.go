package sidecar

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Proxy is one connected sidecar. Its methods may be called from any goroutine.
type Proxy struct {
	t      testing.TB
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	// leave ends the stream and waits for that; ended is closed when nothing more is received, for
	// the reason in err.
	leave func()
	ended chan struct{}
	err   error
	// released is set if the stream may end.
	released atomic.Bool

	sending sync.Mutex // of the stream

	mu     sync.Mutex
	have   map[string]map[string]*discoveryv3.Resource // by type URL and name
	record []string
	conduct
}

// Node is the Node of a sidecar as pilot-agent sends it:
// "sidecar~IP~NAME.NAMESPACE~NAMESPACE.svc.cluster.local".
func Node(name, namespace, ip string, metadata map[string]any) *corev3.Node {
	node := &corev3.Node{Id: "sidecar~" + ip + "~" + name + "." + namespace + "~" + namespace + ".svc.cluster.local"}
	if metadata != nil {
		var err error
		if node.Metadata, err = structpb.NewStruct(metadata); err != nil {
			panic("a test's metadata is no Struct: " + err.Error())
		}
	}
	return node
}

// Connect connects a sidecar until the test ends. A stream that ends before fails the test, unless
// it was released.
func Connect(t testing.TB, address string, node *corev3.Node) *Proxy {
	t.Helper()
	return ConnectWith(t, address, insecure.NewCredentials(), node)
}

// ConnectWith is Connect with credentials, such as a certificate that proves the sidecar's
// identity. Only such sidecars have a vote on what others are served (package quarantine).
func ConnectWith(t testing.TB, address string, c credentials.TransportCredentials, node *corev3.Node) *Proxy {
	t.Helper()
	p := dialProxy(t, address, c)
	p.sendFirst(node)
	return p
}

// ConnectRejected connects a sidecar that the control plane must refuse, and returns the reason.
func ConnectRejected(t testing.TB, address string, node *corev3.Node) error {
	t.Helper()
	p := dialProxy(t, address, insecure.NewCredentials())
	p.AllowEnd()
	p.sendFirst(node)
	<-p.ended
	return p.err
}

func dialProxy(t testing.TB, address string, c credentials.TransportCredentials) *Proxy {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &Proxy{t: t, stream: stream, ended: make(chan struct{}), have: map[string]map[string]*discoveryv3.Resource{}}
	p.leave = sync.OnceFunc(func() {
		p.AllowEnd()
		cancel()
		<-p.ended
		_ = conn.Close() // its stream has ended
	})
	return p
}

// sendFirst begins to receive, and subscribes to what Envoy begins with.
func (p *Proxy) sendFirst(node *corev3.Node) {
	go p.receiveResponses()
	p.t.Cleanup(p.leave)
	p.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: api.ClusterType})
	p.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType})
}

// AllowEnd allows the control plane to end the stream from now on.
func (p *Proxy) AllowEnd() { p.released.Store(true) }

// Subscribe requests resources by name, besides the names that its resources refer to.
func (p *Proxy) Subscribe(typeURL string, names ...string) {
	p.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

// Leave ends the stream, as a sidecar that is stopped does.
func (p *Proxy) Leave() { p.leave() }

// Send sends a request that a sidecar would not make by itself. One on a stream that has ended is
// not sent.
func (p *Proxy) Send(r *discoveryv3.DeltaDiscoveryRequest) {
	p.sending.Lock()
	defer p.sending.Unlock()
	if err := p.stream.Send(
		r,
	); err != nil && !errors.Is(err, io.EOF) &&
		!p.released.Load() { // of an io.EOF Recv has the reason
		p.t.Errorf("send: %v", err)
	}
}

func (p *Proxy) receiveResponses() {
	defer close(p.ended)
	for {
		r, err := p.stream.Recv()
		if err != nil {
			p.err = err
			if !p.released.Load() {
				p.t.Errorf("the stream ended: %v", err)
			}
			return
		}
		for _, request := range p.handleResponse(r) {
			p.Send(request)
		}
	}
}

// handleResponse processes a response, and returns the requests that Envoy would send because of
// it.
func (p *Proxy) handleResponse(r *discoveryv3.DeltaDiscoveryResponse) []*discoveryv3.DeltaDiscoveryRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	answers := p.answerTo(r)
	short := api.ShortType(r.TypeUrl)
	if p.have[r.TypeUrl] == nil {
		p.have[r.TypeUrl] = map[string]*discoveryv3.Resource{}
	}
	before := p.wantedNames(r.TypeUrl)
	for _, resource := range r.Resources {
		p.have[r.TypeUrl][resource.Name] = resource
		p.record = append(p.record, short+" "+resource.Name)
	}
	for _, name := range r.RemovedResources {
		delete(p.have[r.TypeUrl], name)
		p.record = append(p.record, short+" -"+name)
	}
	p.checkKept(r)
	return append(answers, subscriptionChanges(before, p.wantedNames(r.TypeUrl))...)
}

// SentResources returns the resources sent since the last call, sorted and without duplicates: "CDS
// outbound|80||a", and "CDS -outbound|80||a" for a removed one.
func (p *Proxy) SentResources() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.record
	p.record = nil
	slices.Sort(list)
	return slices.Compact(list)
}

// Count returns how often the entry is in the record since the last call of Sent.
func (p *Proxy) Count(sent string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.record {
		if one == sent {
			n++
		}
	}
	return n
}

// Read decodes a resource of the sidecar, and reports whether the sidecar has it.
func (p *Proxy) Read(typeURL, name string, into proto.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readResource(typeURL, name, into)
}

// readResource is Read of a proxy that is locked.
func (p *Proxy) readResource(typeURL, name string, into proto.Message) bool {
	resource := p.have[typeURL][name]
	if resource == nil {
		return false
	}
	if err := resource.Resource.UnmarshalTo(into); err != nil {
		p.t.Errorf("%s %s: %v", api.ShortType(typeURL), name, err)
	}
	return true
}

// VersionOf returns the version of a resource that the sidecar has, "" if it has none.
func (p *Proxy) VersionOf(typeURL, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[typeURL][name].GetVersion()
}

// ResourceNames returns the names of the resources of a type that the sidecar has, sorted.
func (p *Proxy) ResourceNames(typeURL string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for name := range p.have[typeURL] {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
