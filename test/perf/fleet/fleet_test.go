package fleet_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func cluster(connections uint32) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: "c1", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{MaxConnections: wrapperspb.UInt32(connections)}}},
	}
}

// server is a control plane written with the real protobuf types. It sends one resource of each
// type, and pushes a cluster to every stream when the test requests it.
type server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t    *testing.T
	push chan struct{} // closed: the new cluster is pushed

	mu   sync.Mutex
	acks map[string]int // by type URL
	held map[string]int // initial_resource_versions, by type URL
}

func (s *server) body(url string) proto.Message {
	switch url {
	case wire.CDS.URL():
		return cluster(10)
	case wire.EDS.URL():
		return &endpointv3.ClusterLoadAssignment{ClusterName: "c1"}
	case wire.LDS.URL():
		manager := s.packed(&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "r1"}},
			HttpFilters: []*hcmv3.HttpFilter{{Name: "e1", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
				ConfigDiscovery: &corev3.ExtensionConfigSource{TypeUrls: []string{"type.googleapis.com/any"}},
			}}},
		})
		return &listenerv3.Listener{Name: "l1", FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{
			{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}}}}
	case wire.RDS.URL():
		return &routev3.RouteConfiguration{Name: "r1"}
	case wire.ECDS.URL():
		return &corev3.TypedExtensionConfig{Name: "e1"}
	}
	s.t.Errorf("a request for type %q", url)
	return nil
}

func (s *server) packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		s.t.Error(err)
	}
	return a
}

// request is what both variants of the protocol have.
type request struct {
	url, nonce, version string
	names               []string
	node                *corev3.Node
	held                int
}

// serve answers first requests and checks all others.
func (s *server) serve(requests <-chan request, send func(url, nonce string, body proto.Message) error, delta bool) error {
	nonces, n, push := map[string]string{}, 0, s.push
	respond := func(url string, body proto.Message) error {
		n++
		nonces[url] = fmt.Sprint("n", n)
		return send(url, nonces[url], body)
	}
	for {
		var r request
		var ok bool
		select {
		case r, ok = <-requests:
			if !ok {
				return nil
			}
		case <-push:
			push = nil
			if err := respond(wire.CDS.URL(), cluster(2_000_001)); err != nil {
				return err
			}
			continue
		}
		last, known := nonces[r.url]
		if (r.node != nil) != (len(nonces) == 0) {
			s.t.Errorf("%s: node in the wrong request", r.url)
		}
		if !known {
			if all := r.url == wire.CDS.URL() || r.url == wire.LDS.URL(); all != (len(r.names) == 0) {
				s.t.Errorf("%s: first request with names %q", r.url, r.names)
			}
			s.mu.Lock()
			s.held[r.url] += r.held
			s.mu.Unlock()
			if err := respond(r.url, s.body(r.url)); err != nil {
				return err
			}
			continue
		}
		if r.nonce != last || !delta && r.version != "v"+last {
			s.t.Errorf("%s: nonce %q and version %q in answer to %q", r.url, r.nonce, r.version, last)
		}
		s.mu.Lock()
		s.acks[r.url]++
		s.mu.Unlock()
	}
}

func (s *server) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	in := make(chan request)
	go func() {
		defer close(in)
		for {
			r, err := st.Recv()
			if err != nil {
				return
			}
			in <- request{url: r.TypeUrl, nonce: r.ResponseNonce, names: r.ResourceNamesSubscribe, node: r.Node, held: len(r.InitialResourceVersions)}
		}
	}()
	return s.serve(in, func(url, nonce string, body proto.Message) error {
		return st.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: url, Nonce: nonce, Resources: []*discoveryv3.Resource{
			{Name: "x", Version: "1", Resource: s.packed(body)}}})
	}, true)
}

func (s *server) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	in := make(chan request)
	go func() {
		defer close(in)
		for {
			r, err := st.Recv()
			if err != nil {
				return
			}
			in <- request{url: r.TypeUrl, nonce: r.ResponseNonce, version: r.VersionInfo, names: r.ResourceNames, node: r.Node}
		}
	}()
	return s.serve(in, func(url, nonce string, body proto.Message) error {
		return st.Send(&discoveryv3.DiscoveryResponse{TypeUrl: url, Nonce: nonce, VersionInfo: "v" + nonce, Resources: []*anypb.Any{s.packed(body)}})
	}, false)
}

func (s *server) acked(url string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acks[url]
}

func start(t *testing.T) (*server, string) {
	t.Helper()
	s := &server{t: t, push: make(chan struct{}), acks: map[string]int{}, held: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return s, l.Addr().String()
}

func newFleet(t *testing.T, address string, delta bool, n int) *fleet.Fleet {
	t.Helper()
	m, err := workload.New(workload.Params{Services: 12, Endpoints: 3, Routes: 2, Namespaces: 3})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := m.Nodes(n)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(fleet.Options{Addresses: []string{address}, Delta: delta}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func wait(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}

func everybody(int) bool { return true }

func TestProxiesFollowTheProtocol(t *testing.T) {
	const proxies = 3
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%t", delta), func(t *testing.T) {
			s, address := start(t)
			f := newFleet(t, address, delta, proxies)
			wait(t, f.DisconnectProxies(fleet.IndexRange(0, proxies), true).Start().Done, "proxies in sync")
			if eds, rds := f.SubscribedNames(0); eds != 1 || rds != 1 {
				t.Errorf("a proxy follows %d names of EDS and %d of RDS, want one of each", eds, rds)
			}
			c := f.Expect(workload.Mark{Change: workload.RuleEdit, Number: 1}, nil, everybody)
			c.Begin()
			close(s.push)
			wait(t, c.Done, "the change")
			if list, missing := c.Arrivals(); len(list) != proxies || missing > 0 {
				t.Errorf("%d arrivals, %d missing", len(list), missing)
			}
			deadline := time.Now().Add(patience)
			for _, typ := range []wire.Type{wire.CDS, wire.EDS, wire.LDS, wire.RDS, wire.ECDS} {
				for s.acked(typ.URL()) < proxies {
					if time.Now().After(deadline) {
						t.Fatalf("%v: %d ACKs", typ, s.acked(typ.URL()))
					}
					time.Sleep(time.Millisecond)
				}
			}
			if d := f.Difference(0, 1); len(d) > 0 {
				t.Errorf("two proxies that were sent the same differ: %v", d)
			}
			if n := f.Stats().Reconnects; n > 0 {
				t.Errorf("%d streams ended: %v", n, f.StreamEndReasons())
			}
		})
	}
}

func TestReconnectReportsHeldVersions(t *testing.T) {
	s, address := start(t)
	f := newFleet(t, address, true, 2)
	wait(t, f.DisconnectProxies([]int{0, 1}, true).Start().Done, "proxies in sync")
	wait(t, f.DisconnectProxies([]int{0}, false).Start().Done, "a proxy that reconnects")
	wait(t, f.DisconnectProxies([]int{1}, true).Start().Done, "a proxy that reconnects as another pod")
	s.mu.Lock()
	defer s.mu.Unlock()
	for typ := range wire.NumTypes {
		if s.held[typ.URL()] != 1 {
			t.Errorf("%v: %d resources in initial_resource_versions, want 1 of the first proxy and none of the other", typ, s.held[typ.URL()])
		}
	}
}

func TestStreamsThatAreRefusedAreTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer() // serves nothing
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	defer func() { g.Stop(); <-done }()
	f := newFleet(t, l.Addr().String(), true, 1)
	f.DisconnectProxies([]int{0}, true).Start()
	deadline := time.Now().Add(patience)
	for f.Stats().Reconnects < 2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d tries", f.Stats().Reconnects)
		}
		time.Sleep(time.Millisecond)
	}
	if len(f.StreamEndReasons()) == 0 {
		t.Error("no reason is kept")
	}
}

func TestOvertakenChangeCountsAsArrived(t *testing.T) {
	s, address := start(t)
	f := newFleet(t, address, true, 1)
	wait(t, f.DisconnectProxies([]int{0}, true).Start().Done, "the proxy in sync")
	first := f.Expect(workload.Mark{Change: workload.RuleEdit, Number: 7}, nil, everybody)
	first.Begin()
	second := f.Expect(workload.Mark{Change: workload.RuleEdit, Number: 1}, first, everybody)
	second.Begin()
	select {
	case <-first.Done:
		t.Fatal("a change arrived that was not sent")
	default:
	}
	close(s.push) // with the mark of the second
	wait(t, second.Done, "the second change")
	wait(t, first.Done, "the first one with it")
	nobody := f.Expect(workload.Mark{Change: workload.RuleEdit, Number: 8}, nil, func(int) bool { return false })
	wait(t, nobody.Done, "a change that affects no proxy")
}

func TestOnlyLoopbackAddresses(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.1:1": false, "example.com:1": false, "127.0.0.1": false} {
		if err := fleet.CheckLoopback(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestSlowReader(t *testing.T) {
	const size, rate = 40 << 10, 20 << 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write(make([]byte, size))
		<-ctx.Done()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slow := fleet.NewSlowConn(c, rate)
	began := time.Now()
	b := make([]byte, size)
	for n := 0; n < size; {
		k, err := slow.Read(b[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	if took := time.Since(began); took < size*time.Second/rate*9/10 {
		t.Errorf("read %d bytes in %v, with a limit of %d bytes a second", size, took, rate)
	}
}
