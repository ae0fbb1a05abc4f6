package ondemand

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// server is an ADS server for one client with incremental xDS. A wildcard subscription to clusters
// is answered with the cluster "local" only.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	address string

	mu        sync.Mutex
	resources map[string]map[string]proto.Message // by type URL and name
	subscribe []string                            // names of clusters that the client subscribed to, in order
	first     *discoveryv3.DeltaDiscoveryRequest  // of clusters, on the newest stream
	nonce     int
	stream    chan *discoveryv3.DeltaDiscoveryResponse // of the newest stream
	end       chan struct{}                            // ends the newest stream
}

func startServer(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: listener.Addr().String(), resources: map[string]map[string]proto.Message{}}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(listener) })
	t.Cleanup(func() { g.Stop(); serving.Wait() })
	return s
}

// set adds or replaces a resource, which is sent when the client subscribes to it.
func (s *server) set(typeURL, name string, m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[typeURL] == nil {
		s.resources[typeURL] = map[string]proto.Message{}
	}
	s.resources[typeURL][name] = m
}

// push sends a cluster without a new request of the client.
func (s *server) push(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(api.ClusterType, []string{cluster}, nil)
}

// remove sends the removal of a cluster. The cluster is sent again if the client subscribes to it.
func (s *server) remove(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(api.ClusterType, nil, []string{cluster})
}

// disconnect ends the stream. The client opens another one.
func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = nil
	close(s.end)
}

// subscriptions returns how often the client has subscribed to a cluster.
func (s *server) subscriptions(cluster string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.subscribe {
		if name == cluster {
			n++
		}
	}
	return n
}

// firstRequest returns the first request for clusters of the newest stream, or nil before it.
func (s *server) firstRequest() *discoveryv3.DeltaDiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// send sends a response. s.mu must be held.
func (s *server) send(typeURL string, names, removed []string) {
	s.nonce++
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: fmt.Sprint(s.nonce), RemovedResources: removed}
	for _, name := range names {
		body, err := anypb.New(s.resources[typeURL][name])
		if err != nil {
			panic(err) // messages of tests encode
		}
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: name, Version: "1", Resource: body})
	}
	s.stream <- r
}

// DeltaAggregatedResources serves the client's stream until disconnect.
func (s *server) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	responses, end := make(chan *discoveryv3.DeltaDiscoveryResponse, 100), make(chan struct{})
	s.mu.Lock()
	s.stream, s.end = responses, end
	s.mu.Unlock()
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			s.answer(r)
		}
	}()
	for {
		select {
		case r := <-responses:
			if err := stream.Send(r); err != nil {
				return err
			}
		case <-end:
			return status.Error(codes.Unavailable, "disconnected by the test")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// answer sends the resources that a request subscribes to, and removals for names that do not exist.
func (s *server) answer(r *discoveryv3.DeltaDiscoveryRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.TypeUrl == api.ClusterType {
		s.subscribe = append(s.subscribe, r.ResourceNamesSubscribe...)
		if s.first == nil {
			s.first = r
		}
	}
	asked := slices.Clone(r.ResourceNamesSubscribe)
	if r.TypeUrl == api.ClusterType && (s.first == r || slices.Contains(asked, "*")) {
		asked = append(asked, "local")
	}
	var names, removed []string
	for _, name := range asked {
		switch {
		case name == "*":
		case s.resources[r.TypeUrl][name] != nil:
			names = append(names, name)
		default:
			removed = append(removed, name)
		}
	}
	if len(names)+len(removed) > 0 {
		s.send(r.TypeUrl, names, removed)
	}
}
