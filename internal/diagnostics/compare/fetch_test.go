package compare

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idle is short, because the control planes of these tests never send the awaited resources.
const idle = 100 * time.Millisecond

// partialServer is a control plane that answers only requests of some types.
type partialServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	answers map[string]proto.Message
}

// StreamAggregatedResources answers the first request of each type.
func (s partialServer) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	sent := map[string]bool{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		m := s.answers[r.GetTypeUrl()]
		if m == nil || sent[r.GetTypeUrl()] {
			continue
		}
		sent[r.GetTypeUrl()] = true
		packed, err := anypb.New(m)
		if err != nil {
			return err
		}
		response := &discoveryv3.DiscoveryResponse{TypeUrl: r.GetTypeUrl(), Nonce: "1", Resources: []*anypb.Any{packed}}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// serve starts a control plane with these answers and returns its address.
func serve(t *testing.T, answers map[string]proto.Message) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, partialServer{answers: answers})
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestFetchWithoutEndpoints returns the clusters although their endpoints are never sent.
func TestFetchWithoutEndpoints(t *testing.T) {
	const name = "outbound|80||a.default.svc.cluster.local"
	ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	address := serve(t, map[string]proto.Message{
		api.ListenerType: &listenerv3.Listener{Name: "l"},
		api.ClusterType: &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads},
		},
	})
	r, err := Fetch(t.Context(), address, &corev3.Node{Id: "a"}, idle)
	if err != nil {
		t.Fatal(err)
	}
	if got := Facts(r)["cluster "+name+", endpoints"]; got != "none sent" {
		t.Errorf("endpoints: %q", got)
	}
}

// TestFetchWithoutListeners returns an error that names the proxy and the address.
func TestFetchWithoutListeners(t *testing.T) {
	address := serve(t, map[string]proto.Message{api.ClusterType: &clusterv3.Cluster{Name: "c"}})
	_, err := Fetch(t.Context(), address, &corev3.Node{Id: "sidecar~a"}, idle)
	if err == nil || !strings.Contains(err.Error(), "read the configuration of sidecar~a from "+address) {
		t.Errorf("error %v", err)
	}
}

// closedStream is a stream on which sending fails.
type closedStream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	err error
}

func (s closedStream) Send(*discoveryv3.DiscoveryRequest) error { return s.err }

// TestSendToAControlPlaneThatHasRefused keeps the error of a request, except io.EOF: the control
// plane has refused the proxy before it was sent, and only receiving returns the reason.
func TestSendToAControlPlaneThatHasRefused(t *testing.T) {
	broken := errors.New("broken")
	for sent, want := range map[error]error{io.EOF: nil, broken: broken} {
		f := &fetcher{stream: closedStream{err: sent}, types: map[string]*typeState{}}
		f.subscribe(api.ClusterType, nil)
		if !errors.Is(f.err, want) || !f.isWaiting() {
			t.Errorf("after %v: error %v, want %v; waits for a response: %v", sent, f.err, want, f.isWaiting())
		}
	}
}
