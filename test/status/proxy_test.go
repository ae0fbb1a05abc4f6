package status

import (
	"context"
	"errors"
	"io"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/api"
)

// proxy is a simulated sidecar with one delta stream, which acknowledges what it is sent as long as it may.
type proxy struct {
	l      *lab
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	leave  func()
	ended  chan struct{}

	mu        sync.Mutex
	err       error  // why the stream ended
	refuses   string // type URL whose responses it refuses
	responses int
	silent    bool // does not answer
	waiting   []*discoveryv3.DeltaDiscoveryRequest
}

// connect connects a sidecar and subscribes as Envoy does.
func (r *replica) connect(name, ip string, metadata map[string]any) *proxy {
	r.l.Helper()
	conn, err := grpc.NewClient(r.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		r.l.Fatal(err)
	}
	p := &proxy{l: r.l, stream: st, ended: make(chan struct{})}
	go func() { defer close(p.ended); p.receive() }()
	p.leave = sync.OnceFunc(func() { cancel(); <-p.ended; conn.Close() })
	r.l.Cleanup(p.leave)
	node := &corev3.Node{Id: "sidecar~" + ip + "~" + name + "." + r.l.shop + "~" + r.l.shop + ".svc.cluster.local"}
	if metadata != nil {
		if node.Metadata, err = structpb.NewStruct(metadata); err != nil {
			r.l.Fatal(err)
		}
	}
	p.send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: api.ClusterType})
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType})
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.RouteType, ResourceNamesSubscribe: []string{"80", "9080"}})
	return p
}

// send sends a request. One on a stream that has ended is not sent.
func (p *proxy) send(r *discoveryv3.DeltaDiscoveryRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stream.Send(r); err != nil && !errors.Is(err, io.EOF) && p.stream.Context().Err() == nil {
		p.l.Errorf("send: %v", err)
	}
}

func (p *proxy) receive() {
	for {
		r, err := p.stream.Recv()
		if err != nil {
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
			return
		}
		answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
		var names []string
		for _, x := range r.Resources {
			cluster := new(clusterv3.Cluster)
			if r.TypeUrl == api.ClusterType && x.Resource.UnmarshalTo(cluster) == nil && cluster.GetType() == clusterv3.Cluster_EDS {
				names = append(names, x.Name)
			}
		}
		p.mu.Lock()
		p.responses++
		silent := p.silent
		if p.refuses == r.TypeUrl && len(r.Resources) > 0 {
			answer.ErrorDetail = &status.Status{Code: 3, Message: "no: " + r.Resources[0].Name}
		}
		if silent {
			p.waiting = append(p.waiting, answer)
		}
		p.mu.Unlock()
		if !silent {
			p.send(answer)
		}
		if len(names) > 0 {
			p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.EndpointType, ResourceNamesSubscribe: names})
		}
	}
}

// silence has the proxy answer nothing, and answer for all when that ends.
func (p *proxy) silence(silent bool) {
	p.mu.Lock()
	p.silent = silent
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, r := range waiting {
		p.send(r)
	}
}

func (p *proxy) count() int { p.mu.Lock(); defer p.mu.Unlock(); return p.responses }

func (p *proxy) refuse(typeURL string) { p.mu.Lock(); defer p.mu.Unlock(); p.refuses = typeURL }
