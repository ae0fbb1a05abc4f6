package sidecar

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/api"
)

// Proxy is one connected sidecar. Its methods may be called from any goroutine.
type Proxy struct {
	t      testing.TB
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	// released says that the stream may end.
	released atomic.Bool
	sending  sync.Mutex // a stream is sent to by one at a time

	mu     sync.Mutex
	have   map[string]map[string]*discoveryv3.Resource // by type URL and name
	record []string
}

// Node is the Node of a sidecar as pilot-agent sends it: "sidecar~IP~NAME.NAMESPACE~NAMESPACE.svc.cluster.local".
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

// Connect connects a sidecar until the test ends. A stream that ends before fails the test, unless it was released.
func Connect(t testing.TB, address string, node *corev3.Node) *Proxy {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &Proxy{t: t, stream: stream, have: map[string]map[string]*discoveryv3.Resource{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.receive(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close() // its stream has ended
	})
	p.send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: api.ClusterType})
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType})
	return p
}

// Release says that the control plane may end the stream from now on.
func (p *Proxy) Release() { p.released.Store(true) }

// Subscribe asks for resources by name, beside those that what the sidecar has leads to.
func (p *Proxy) Subscribe(typeURL string, names ...string) {
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

func (p *Proxy) send(r *discoveryv3.DeltaDiscoveryRequest) {
	p.sending.Lock()
	defer p.sending.Unlock()
	if err := p.stream.Send(r); err != nil {
		p.t.Errorf("send: %v", err)
	}
}

func (p *Proxy) receive(ctx context.Context) {
	for {
		r, err := p.stream.Recv()
		if err != nil {
			if ctx.Err() == nil && !p.released.Load() {
				p.t.Errorf("the stream ended: %v", err)
			}
			return
		}
		next := p.take(r)
		p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
		for _, request := range next {
			p.send(request)
		}
	}
}

// take takes a response, and gives the requests that Envoy would make because of it.
func (p *Proxy) take(r *discoveryv3.DeltaDiscoveryResponse) []*discoveryv3.DeltaDiscoveryRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	short := api.ShortType(r.TypeUrl)
	if p.have[r.TypeUrl] == nil {
		p.have[r.TypeUrl] = map[string]*discoveryv3.Resource{}
	}
	before := p.wanted(r.TypeUrl)
	for _, resource := range r.Resources {
		p.have[r.TypeUrl][resource.Name] = resource
		p.record = append(p.record, short+" "+resource.Name)
	}
	for _, name := range r.RemovedResources {
		delete(p.have[r.TypeUrl], name)
		p.record = append(p.record, short+" -"+name)
	}
	return subscriptions(before, p.wanted(r.TypeUrl))
}

// Sent gives what was sent since it was last asked for, sorted and each once: "CDS outbound|80||a", and "CDS -outbound|80||a" for what
// was removed.
func (p *Proxy) Sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.record
	p.record = nil
	slices.Sort(list)
	return slices.Compact(list)
}

// Count is how often something was sent since Sent was last asked for what.
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

// Read decodes a resource that the sidecar has, and says whether it has it.
func (p *Proxy) Read(typeURL, name string, into proto.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	resource := p.have[typeURL][name]
	if resource == nil {
		return false
	}
	if err := resource.Resource.UnmarshalTo(into); err != nil {
		p.t.Errorf("%s %s: %v", api.ShortType(typeURL), name, err)
	}
	return true
}

// Version gives the version of a resource that the sidecar has, "" if it has none.
func (p *Proxy) Version(typeURL, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[typeURL][name].GetVersion()
}

// Names gives the names of the resources of a type that the sidecar has, sorted.
func (p *Proxy) Names(typeURL string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for name := range p.have[typeURL] {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
