package server

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBothModes runs a test in SotW and delta.
func inBothModes(t *testing.T, test func(t *testing.T, mode stream.Mode)) {
	for _, mode := range []stream.Mode{stream.SotW, stream.Delta} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

func TestStartAndPushOrder(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		h := serve(t, 3, Options{Identifier: "me"})
		c := h.connect(mode, testNode(1))
		has := c.start()
		if n := len(has.names(api.ClusterType)); n != 4 {
			t.Fatalf("%d clusters, want 4", n)
		}
		h.mesh.AddService("new")
		clusters, endpoints, routes := c.want(api.ClusterType), c.want(api.EndpointType), c.want(api.RouteType)
		if mode == stream.Delta && !slices.Equal(clusters.names, []string{pushtest.ClusterName("new")}) {
			t.Errorf("clusters %v, want only the new one", clusters.names)
		}
		if mode == stream.SotW && len(clusters.names) != 5 {
			t.Errorf("clusters %v, want all", clusters.names)
		}
		if !slices.Equal(endpoints.names, []string{pushtest.ClusterName("new")}) ||
			!slices.Equal(routes.names, []string{"80"}) {
			t.Errorf("endpoints %v, routes %v", endpoints.names, routes.names)
		}
	})
}

func TestNothingIsSentForNothing(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		h := serve(t, 3, Options{})
		c := h.connect(mode, testNode(1))
		c.start()
		h.mesh.AddService("s1")               // exists already
		h.mesh.SetEndpoints("s2", "10.1.0.2") // has it already
		h.mesh.SetEndpoints("s1", "10.7.7.7") // the one change
		a := c.want(api.EndpointType)
		if !slices.Equal(a.names, []string{pushtest.ClusterName("s1")}) {
			t.Errorf("endpoints %v, want those of s1", a.names)
		}
		if len(c.answers) > 0 {
			t.Errorf("unexpected further response: %v", <-c.answers)
		}
	})
}

func TestAlikeProxiesShareOneTranslation(t *testing.T) {
	h := serve(t, 20, Options{})
	for i := range 10 {
		h.connect(stream.Mode(i%2), testNode(i)).start()
	}
	for typeURL, want := range map[string]int{api.ClusterType: 1, api.EndpointType: 20, api.ListenerType: 1, api.RouteType: 1} {
		if got := h.gen.Calls(typeURL); got != want {
			t.Errorf("the generator of %s was called %d times for ten alike proxies, want %d",
				api.ShortType(typeURL), got, want)
		}
	}
}

func TestReconnectReceivesOnlyDifferences(t *testing.T) {
	h := serve(t, 5, Options{})
	c := h.connect(stream.Delta, testNode(1))
	has := c.start()
	c.end()
	if err := c.wantEnd(); status.Code(err) != codes.Canceled {
		t.Fatalf("the stream ended with %v", err)
	}
	h.mesh.RemoveService("s0")
	h.mesh.RemoveService("s1")
	h.mesh.SetEndpoints("s2", "10.7.7.7")

	// Another replica, which has generated all resources itself.
	h2 := serve(t, 5, Options{})
	h2.mesh.RemoveService("s0")
	h2.mesh.RemoveService("s1")
	h2.mesh.SetEndpoints("s2", "10.7.7.7")
	h.awaitPush()
	h2.awaitPush()
	for name, h := range map[string]*harness{"the same replica": h, "another": h2} {
		t.Run(name, func(t *testing.T) {
			c := h.connect(stream.Delta, testNode(1))
			c.t = t
			endpoints := has.names(api.EndpointType)
			c.ask(api.ClusterType, nil, has[api.ClusterType])
			c.ask(api.EndpointType, endpoints, has[api.EndpointType])
			c.ask(api.ListenerType, nil, has[api.ListenerType])
			c.ask(api.RouteType, []string{"80"}, has[api.RouteType])
			got := map[string]answer{}
			for len(got) < 4 {
				select {
				case a := <-c.answers:
					got[a.typeURL] = a
					c.ack(a, nil, "")
				case <-time.After(limit):
					t.Fatalf("only %v answered", got)
				}
			}
			if a := got[api.ClusterType]; len(a.names) != 0 {
				t.Errorf("clusters %v sent again", a.names)
			}
			if a := got[api.EndpointType]; !slices.Equal(a.names, []string{pushtest.ClusterName("s2")}) {
				t.Errorf("endpoints %v, want those of s2", a.names)
			}
			if a := got[api.ListenerType]; len(a.names) != 0 {
				t.Errorf("listeners %v sent again", a.names)
			}
			if a := got[api.RouteType]; !slices.Equal(a.names, []string{"80"}) {
				t.Errorf("routes %v", a.names)
			}
			gone := c.want(api.ClusterType)
			if !slices.Equal(gone.removed, []string{pushtest.ClusterName("s0"), pushtest.ClusterName("s1")}) ||
				len(gone.names) > 0 {
				t.Errorf("removed %v, want s0 and s1; resources %v", gone.removed, gone.names)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		h := serve(t, 2, Options{})
		c := h.connect(mode, testNode(1))
		c.start()
		h.mesh.EditRoutes()
		c.ack(c.want(api.RouteType), []string{"80"}, "80: not with me")
		h.mesh.EditRoutes() // is applied after the refusal was read, or together with it
		c.ack(c.want(api.RouteType), []string{"80"}, "")
		h.wait("the refusal is recorded", func() bool { return len(h.pusher.Reports().Nacks()) > 0 })
		nacks := h.pusher.Reports().Nacks()
		if len(nacks) != 1 || nacks[0].Message != "80: not with me" || nacks[0].Resources[0].Name != "80" {
			t.Errorf("nacks %+v", nacks)
		}
	})
}

func TestTwoStreamsOfOneNode(t *testing.T) {
	h := serve(t, 1, Options{})
	a, b := h.connect(stream.Delta, testNode(1)), h.connect(stream.Delta, testNode(1))
	a.start()
	b.start()
	list := h.server.Connections()
	if len(list) != 2 || list[0].ID == list[1].ID || list[0].Proxy.ID != list[1].Proxy.ID ||
		!strings.HasPrefix(list[0].Peer, "127.0.0.1:") {
		t.Fatalf("connections %+v, want two of one node", list)
	}
	h.mesh.EditRoutes()
	a.want(api.RouteType)
	b.want(api.RouteType)
}

func TestFirstRequests(t *testing.T) {
	tests := []struct {
		name string
		node *corev3.Node
		code codes.Code
		text string
	}{
		{"no node", nil, codes.InvalidArgument, "node.id is missing"},
		{"three parts", &corev3.Node{Id: "sidecar~10.0.0.1~p.default"}, codes.InvalidArgument, "got 3 parts"},
		{
			"unknown kind",
			&corev3.Node{Id: "foo~10.0.0.1~p.default~default.svc.cluster.local"},
			codes.InvalidArgument,
			`"foo"`,
		},
		{
			"bad address",
			&corev3.Node{Id: "sidecar~10.0.0~p.default~default.svc.cluster.local"},
			codes.InvalidArgument,
			"bad IP",
		},
	}
	h := serve(t, 1, Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBothModes(t, func(t *testing.T, mode stream.Mode) {
				c := h.connect(mode, tt.node)
				c.t = t
				c.ask(api.ClusterType, nil, nil)
				err := c.wantEnd()
				if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("ended with %v, want %v with %q", err, tt.code, tt.text)
				}
			})
		})
	}
	t.Run("a health report before anything else", func(t *testing.T) {
		c := h.connect(stream.Delta, nil)
		c.t = t
		c.ask(healthType, nil, nil)
		c.node = testNode(1)
		c.start()
		c.ask(healthType, nil, nil)
		c.ask("type.googleapis.com/no.such.Type", nil, nil)
		c.ask(api.RouteType, []string{"90"}, nil)
		c.want(api.RouteType)
	})
	t.Run("no type", func(t *testing.T) {
		c := h.connect(stream.SotW, testNode(1))
		c.t = t
		c.ask("", nil, nil)
		if err := c.wantEnd(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "type_url") {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestNotReadyThenReadyThenStopped(t *testing.T) {
	h := serve(t, 1, Options{})
	h.server.SetReady(false)
	early := h.connect(stream.Delta, testNode(1))
	early.ask(api.ClusterType, nil, nil)
	if err := early.wantEnd(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not ready") {
		t.Fatalf("ended with %v, want Unavailable", err)
	}
	h.server.SetReady(true)
	c := h.connect(stream.Delta, testNode(1))
	c.start()

	stopped := make(chan struct{})
	go func() {
		h.server.Stop()
		h.grpc.GracefulStop()
		close(stopped)
	}()
	if err := c.wantEnd(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("ended with %v, want Unavailable", err)
	}
	select {
	case <-stopped:
	case <-time.After(limit):
		t.Fatal("the graceful stop did not end")
	}
}

// TestBlockedReader connects a proxy that does not read: its first large response is never written,
// and its stream is ended. Other proxies are not affected.
func TestBlockedReader(t *testing.T) {
	h := serve(t, 3000, Options{SendTimeout: 200 * time.Millisecond})
	good := h.connect(stream.Delta, testNode(1))
	good.start()
	conn := h.dial(grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, typeURL := range []string{api.ClusterType, api.ListenerType} {
		if err := st.Send(&discoveryv3.DiscoveryRequest{Node: testNode(2), TypeUrl: typeURL}); err != nil {
			t.Fatal(err)
		}
	}
	streams := func(n int) func() bool { return func() bool { return len(h.server.Connections()) == n } }
	h.wait("both streams are open", streams(2))
	for i := range 5 {
		h.mesh.SetEndpoints("s1", fmt.Sprintf("10.7.7.%d", i))
		good.ack(good.want(api.EndpointType), nil, "")
	}
	h.wait("the blocked stream is ended", streams(1))
	if list := h.server.Connections(); list[0].Proxy.Name != "p1" {
		t.Errorf("the stream of %s is left", list[0].Proxy.Name)
	}
}

func TestOtherServicesOnTheSamePort(t *testing.T) {
	g := grpc.NewServer(ServerOptions(Transport{})...)
	New(Options{}).Register(g)
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	reflection.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	defer func() { g.Stop(); <-done }()
	h := &harness{t: t, addr: l.Addr().String()}
	conn := h.dial()
	if r, err := grpc_health_v1.NewHealthClient(conn).
		Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", r, err)
	}
	st, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(
		&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}},
	); err != nil {
		t.Fatal(err)
	}
	r, err := st.Recv()
	if err != nil || !strings.Contains(r.String(), "envoy.service.discovery.v3.AggregatedDiscoveryService") {
		t.Errorf("reflection: %v, %v", r, err)
	}
}

// TestBothWaysAtOnce connects a client that writes and never reads. The server must keep reading,
// or both would wait for each other, and must not queue a response for each request.
func TestBothWaysAtOnce(t *testing.T) {
	h := serve(t, 100, Options{})
	conn := h.dial(grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 100 {
		names = append(names, pushtest.ClusterName(fmt.Sprint("s", i)))
	}
	const requests = 2000 // of 4.5 KB, with answers of 15 KB
	sent := make(chan error, 1)
	go func() {
		for range requests {
			if err := st.Send(
				&discoveryv3.DeltaDiscoveryRequest{
					Node:                   testNode(1),
					TypeUrl:                api.EndpointType,
					ResourceNamesSubscribe: names,
				},
			); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(limit):
		t.Fatal("the server stops reading while its responses are not read")
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := 0
	for {
		if _, err := st.Recv(); err != nil {
			break
		}
		answers++
	}
	if answers == 0 || answers > requests/2 {
		t.Errorf("%d requests had %d responses, want few, each answering many requests", requests, answers)
	}
}
