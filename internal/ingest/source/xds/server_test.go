package xds

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	mcp "istio.io/api/mcp/v1alpha1"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// shop is a server of config objects that follows the protocol. It answers the first request for
// each type, and sends changes.
type shop struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	noDelta bool            // does not support the delta variant
	mute    map[string]bool // types that are not answered

	mu      sync.Mutex
	types   map[string]map[string]*anypb.Any // by type URL and name
	changed chan struct{}                    // closed at each change
	nodes   []*corev3.Node
	opened  []string // types of first requests
	// initial_resource_versions by type, of the last stream
	held     map[string]map[string]string
	rejected []*discoveryv3.DiscoveryRequest // with an error
	acked    map[string]string               // nonce last acknowledged by type
	nonces   int
	sent     int // resources in delta responses
}

func newShop() *shop {
	return &shop{types: map[string]map[string]*anypb.Any{}, changed: make(chan struct{}), held: map[string]map[string]string{}, acked: map[string]string{}}
}

// setObject stores an object, or deletes it if body is nil.
func (s *shop) setObject(typeURL, name string, body *anypb.Any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.types[typeURL] == nil {
		s.types[typeURL] = map[string]*anypb.Any{}
	}
	if s.types[typeURL][name] = body; body == nil {
		delete(s.types[typeURL], name)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// serve listens on an address until the test or the returned function ends it.
func (s *shop) serve(t testing.TB, address string, o ...grpc.ServerOption) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(append(o, grpc.MaxRecvMsgSize(64<<20), grpc.WaitForHandlers(true))...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	stop = sync.OnceFunc(func() { g.Stop(); <-done })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// watch is the subscription of one stream to one type.
type watch struct {
	sent map[string]*anypb.Any
	open bool
}

// step is the difference from the state that was sent.
func (s *shop) step(typeURL string, w *watch) (updated, removed []string, all map[string]*anypb.Any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = maps.Clone(s.types[typeURL])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !proto.Equal(all[name], w.sent[name]) {
			updated = append(updated, name)
		}
	}
	for name := range w.sent {
		if all[name] == nil {
			removed = append(removed, name)
		}
	}
	return updated, removed, all
}

// request has the fields that requests of both variants have.
type request struct {
	node           *corev3.Node
	typeURL, nonce string
	held           map[string]string
}

func (s *shop) recordRequest(r request, watches map[string]*watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.node != nil {
		s.nodes = append(s.nodes, r.node)
	}
	if watches[r.typeURL] != nil {
		s.acked[r.typeURL] = r.nonce
		return
	}
	s.opened = append(s.opened, r.typeURL)
	s.held[r.typeURL] = r.held
	w := &watch{sent: map[string]*anypb.Any{}}
	for name, version := range r.held {
		w.sent[name] = &anypb.Any{}
		if any := s.types[r.typeURL][name]; any != nil && versionOf(any) == version {
			w.sent[name] = any
		}
	}
	watches[r.typeURL] = w
}

func (s *shop) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// stream runs a stream of either variant.
func (s *shop) stream(recv func() (request, error), send func(typeURL, nonce string, updated, removed []string, all map[string]*anypb.Any) error) error {
	requests, ended := make(chan request), make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			r, err := recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- r:
			case <-done:
				return
			}
		}
	}()
	watches := map[string]*watch{}
	for {
		changed := s.changes()
		for _, typeURL := range slices.Sorted(maps.Keys(watches)) {
			w := watches[typeURL]
			updated, removed, all := s.step(typeURL, w)
			if s.mute[typeURL] || w.open && len(updated)+len(removed) == 0 {
				continue
			}
			w.open, w.sent = true, all
			s.mu.Lock()
			s.nonces++
			nonce := strconv.Itoa(s.nonces)
			s.sent += len(updated)
			s.mu.Unlock()
			if err := send(typeURL, nonce, updated, removed, all); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
			s.recordRequest(r, watches)
		case <-changed:
		case <-ended:
			return nil
		}
	}
}

func (s *shop) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.stream(func() (request, error) {
		r, err := st.Recv()
		if err == nil && r.ErrorDetail != nil {
			s.mu.Lock()
			s.rejected = append(s.rejected, r)
			s.mu.Unlock()
		}
		return request{node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce()}, err
	}, func(typeURL, nonce string, _, _ []string, all map[string]*anypb.Any) error {
		m := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, VersionInfo: "v" + nonce, ControlPlane: &corev3.ControlPlane{Identifier: "shop"}}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			m.Resources = append(m.Resources, all[name])
		}
		return st.Send(m)
	})
}

func (s *shop) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	if s.noDelta {
		return status.Error(codes.Unimplemented, "no delta here")
	}
	return s.stream(func() (request, error) {
		r, err := st.Recv()
		return request{node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce(), held: r.GetInitialResourceVersions()}, err
	}, func(typeURL, nonce string, updated, removed []string, all map[string]*anypb.Any) error {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, RemovedResources: removed}
		for _, name := range updated {
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: name, Version: versionOf(all[name]), Resource: all[name]})
		}
		return st.Send(m)
	})
}

// versionOf returns the version of an object in its wrapper.
func versionOf(any *anypb.Any) string {
	var r mcp.Resource
	_ = any.UnmarshalTo(&r)
	return r.GetMetadata().GetVersion()
}
