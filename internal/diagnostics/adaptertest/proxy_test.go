package adaptertest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

type (
	request  = discoveryv3.DeltaDiscoveryRequest
	response = discoveryv3.DeltaDiscoveryResponse
)

// startAdapter runs an adapter with these services until the test ends.
func startAdapter(t *testing.T, services ...adapter.Service) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	p := adapter.PlatformFunc(func(ctx context.Context, sink adapter.Sink) error {
		for _, s := range services {
			sink.Set(s)
		}
		sink.Synced()
		<-ctx.Done()
		return nil
	})
	go func() {
		done <- adapter.Run(ctx, p, adapter.Options{Platform: "Test", Address: "127.0.0.1:0", Listening: func(a net.Addr) { listening <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return (<-listening).String()
}

// faults falsify an adapter. Fields that are nil change nothing.
type faults struct {
	// request edits a request. It returns false to drop it, or an error to end the stream.
	request func(*request) (bool, error)
	// response edits a response to the last request for its type.
	response func(last *request, r *response)
	// repeat reports whether the last response of a type is sent again after a request.
	repeat func(*request) bool
	// open is called for each stream. It may block, or return an error.
	open func() error
	// full edits a response of the state-of-the-world variant.
	full func(*discoveryv3.DiscoveryResponse)
}

// proxy passes streams on to an adapter, with faults.
type proxy struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	faults
	conn *grpc.ClientConn
}

// startProxy starts a proxy before an adapter.
func startProxy(t *testing.T, address string, f faults) (front string) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &proxy{faults: f, conn: conn})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done; conn.Close() })
	return l.Addr().String()
}

// StreamAggregatedResources passes one request and its responses on.
func (p *proxy) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	back, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.conn).StreamAggregatedResources(s.Context())
	if err != nil {
		return err
	}
	q, err := s.Recv()
	if err == nil {
		err = back.Send(q)
	}
	for err == nil {
		var r *discoveryv3.DiscoveryResponse
		if r, err = back.Recv(); err == nil {
			if p.full != nil {
				p.full(r)
			}
			err = s.Send(r)
		}
	}
	return err
}

// DeltaAggregatedResources passes requests and responses on, with the faults.
func (p *proxy) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	if p.open != nil {
		if err := p.open(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(s.Context())
	back, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel(nil)
		return err
	}
	var mu sync.Mutex // of send and the maps
	requests, responses := map[string]*request{}, map[string]*response{}
	forward := func() error {
		q, err := s.Recv()
		if err != nil {
			return err
		}
		if p.request != nil {
			if pass, err := p.request(q); err != nil || !pass {
				return err
			}
		}
		mu.Lock()
		requests[q.GetTypeUrl()] = q
		again := responses[q.GetTypeUrl()]
		if again != nil && p.repeat != nil && p.repeat(q) {
			_ = s.Send(again) // Recv returns its error
		}
		mu.Unlock()
		return back.Send(q)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := forward(); err != nil {
				cancel(err)
				return
			}
		}
	}()
	for err == nil {
		var r *response
		if r, err = back.Recv(); err == nil {
			mu.Lock()
			if p.response != nil {
				p.response(requests[r.GetTypeUrl()], r)
			}
			responses[r.GetTypeUrl()] = r
			err = s.Send(r)
			mu.Unlock()
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return errors.Join(err)
}
