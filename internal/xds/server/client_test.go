package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// limit is the timeout of each wait in these tests.
const limit = 20 * time.Second

// harness serves a mesh on loopback.
type harness struct {
	t      testing.TB
	mesh   *pushtest.Mesh
	gen    *pushtest.Generators
	pusher *push.Pusher
	server *Server
	grpc   *grpc.Server
	addr   string
}

// serve serves a mesh of n services. Everything ends with the test.
func serve(t testing.TB, n int, o Options) *harness { return serveOver(t, n, o, Transport{}) }

func serveOver(t testing.TB, n int, o Options, c Transport) *harness {
	h := &harness{t: t, mesh: pushtest.New(t, n), gen: new(pushtest.Generators)}
	h.pusher = push.New(push.Options{Generators: h.gen.Table(), Metrics: o.Metrics})
	h.mesh.Publish = h.pusher.Publish
	h.pusher.Publish(h.mesh.Current(), snapshot.Delta{All: true})
	o.Pusher = h.pusher
	h.server = New(o)
	h.grpc = grpc.NewServer(ServerOptions(c)...)
	h.server.Register(h.grpc)
	// With a small send buffer, writes to a client that does not read block early. The kernel's
	// default takes megabytes.
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 64<<10)
		})
		return errors.Join(err, failed)
	}}
	l, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.pusher.Run(ctx) })
	running.Go(func() {
		if err := h.grpc.Serve(l); err != nil {
			slog.Error("serve", "err", err)
		}
	})
	t.Cleanup(func() {
		h.server.Stop()
		h.grpc.Stop()
		cancel()
		running.Wait()
	})
	h.server.SetReady(true)
	return h
}

// wait waits until done returns true. It fails the test after limit.
func (h *harness) wait(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("timed out waiting until %s: %+v", what, h.pusher.Reports().Stats())
		}
	}
}

// awaitPush waits until all changes of the mesh have been pushed.
func (h *harness) awaitPush() {
	h.t.Helper()
	h.wait("the change is pushed", func() bool { return h.pusher.Reports().Stats().Snapshot >= h.mesh.Current().Version })
}

func (h *harness) dial(o ...grpc.DialOption) *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient(
		h.addr,
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, o...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

func testNode(i int) *corev3.Node {
	return &corev3.Node{
		Id:      fmt.Sprintf("sidecar~10.9.0.%d~p%d.default~default.svc.cluster.local", i, i),
		Cluster: "p.default",
		Metadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"ISTIO_VERSION": structpb.NewStringValue("1.31.0")},
		},
	}
}

// answer is a response in either mode.
type answer struct {
	typeURL, version, nonce string
	names                   []string
	versions                map[string]string // delta
	bodies                  map[string][]byte
	removed                 []string
}

// client is a proxy that uses one of the modes. It does not answer by itself.
type client struct {
	t    testing.TB
	mode stream.Mode
	node *corev3.Node // sent with the next request

	sotw  discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	delta discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	end   context.CancelFunc

	answers chan answer
	err     error // why the stream ended, when answers is closed
}

func (h *harness) connect(mode stream.Mode, node *corev3.Node) *client {
	h.t.Helper()
	return open(h.t, h.dial(), mode, node)
}

// connectAs connects a client with a context that may carry outgoing metadata.
func (h *harness) connectAs(ctx context.Context, mode stream.Mode, node *corev3.Node) *client {
	h.t.Helper()
	return openAs(ctx, h.t, h.dial(), mode, node)
}

func open(t testing.TB, conn *grpc.ClientConn, mode stream.Mode, node *corev3.Node) *client {
	t.Helper()
	return openAs(context.Background(), t, conn, mode, node)
}

func openAs(ctx context.Context, t testing.TB, conn *grpc.ClientConn, mode stream.Mode, node *corev3.Node) *client {
	t.Helper()
	c := &client{t: t, mode: mode, node: node, answers: make(chan answer, 100)}
	ctx, cancel := context.WithCancel(ctx)
	c.end = cancel
	t.Cleanup(cancel)
	ads := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	var err error
	if mode == stream.Delta {
		c.delta, err = ads.DeltaAggregatedResources(ctx)
	} else {
		c.sotw, err = ads.StreamAggregatedResources(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.answers)
		for {
			a, err := c.receive()
			if err != nil {
				c.err = err
				return
			}
			c.answers <- a
		}
	}()
	return c
}

func (c *client) receive() (answer, error) {
	a := answer{versions: map[string]string{}, bodies: map[string][]byte{}}
	if c.mode == stream.Delta {
		m, err := c.delta.Recv()
		if err != nil {
			return a, err
		}
		a.typeURL, a.version, a.nonce, a.removed = m.TypeUrl, m.SystemVersionInfo, m.Nonce, m.RemovedResources
		for _, r := range m.Resources {
			a.add(r.Name, r.Version, r.Resource)
		}
		return a, nil
	}
	m, err := c.sotw.Recv()
	if err != nil {
		return a, err
	}
	a.typeURL, a.version, a.nonce = m.TypeUrl, m.VersionInfo, m.Nonce
	for _, r := range m.Resources {
		a.add(nameOf(r.Value), "", r)
	}
	return a, nil
}

// nameOf returns field 1 of a resource, which is the name in all resource types. If body is not a
// protobuf message, it returns all of it.
func nameOf(body []byte) string {
	if number, kind, n := protowire.ConsumeTag(body); n > 0 && number == 1 && kind == protowire.BytesType {
		if name, n := protowire.ConsumeString(body[n:]); n > 0 {
			return name
		}
	}
	return string(body)
}

func (a *answer) add(name, version string, body *anypb.Any) {
	a.names = append(a.names, name)
	a.versions[name], a.bodies[name] = version, body.Value
}

// ask sends a request. names are sent as resource_names in SotW and resource_names_subscribe in
// delta.
func (c *client) ask(typeURL string, names []string, held map[string]string) {
	c.t.Helper()
	var err error
	if c.mode == stream.Delta {
		err = c.delta.Send(
			&discoveryv3.DeltaDiscoveryRequest{
				Node:                    c.node,
				TypeUrl:                 typeURL,
				ResourceNamesSubscribe:  names,
				InitialResourceVersions: held,
			},
		)
	} else {
		err = c.sotw.Send(&discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: typeURL, ResourceNames: names})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
	c.node = nil
}

// closeSend closes the client's sending direction.
func (c *client) closeSend() {
	c.t.Helper()
	st := grpc.ClientStream(c.sotw)
	if c.mode == stream.Delta {
		st = c.delta
	}
	if err := st.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
}

// ack acknowledges a response, or refuses it if message is set. names are the subscribed names,
// which SotW repeats.
func (c *client) ack(a answer, names []string, message string) {
	c.t.Helper()
	var detail *status.Status
	if message != "" {
		detail = &status.Status{Code: 3, Message: message}
	}
	var err error
	if c.mode == stream.Delta {
		err = c.delta.Send(
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.typeURL, ResponseNonce: a.nonce, ErrorDetail: detail},
		)
	} else {
		err = c.sotw.Send(
			&discoveryv3.DiscoveryRequest{
				TypeUrl:       a.typeURL,
				ResponseNonce: a.nonce,
				VersionInfo:   a.version,
				ResourceNames: names,
				ErrorDetail:   detail,
			},
		)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

// want returns the next response. It fails the test if its type is another or none arrives.
func (c *client) want(typeURL string) answer {
	c.t.Helper()
	select {
	case a, ok := <-c.answers:
		if !ok {
			c.t.Fatalf("the stream ended, want %s: %v", api.ShortType(typeURL), c.err)
		}
		if a.typeURL != typeURL {
			c.t.Fatalf("got %s %v, want %s", api.ShortType(a.typeURL), a.names, api.ShortType(typeURL))
		}
		return a
	case <-time.After(limit):
		c.t.Fatalf("timed out waiting for %s", api.ShortType(typeURL))
	}
	return answer{}
}

// wantEnd discards the remaining responses, and returns the error that ended the stream.
func (c *client) wantEnd() error {
	c.t.Helper()
	timeout := time.After(limit)
	for {
		select {
		case _, ok := <-c.answers:
			if !ok {
				return c.err
			}
		case <-timeout:
			c.t.Fatal("the stream did not end")
		}
	}
}

// configuration contains the resources of a client that has started completely.
type configuration map[string]map[string]string // type to name to version (delta)

// start requests and acknowledges all types in Envoy's order.
func (c *client) start() configuration {
	c.t.Helper()
	has := configuration{}
	take := func(typeURL string, names []string) answer {
		c.ask(typeURL, names, nil)
		a := c.want(typeURL)
		c.ack(a, names, "")
		has[typeURL] = a.versions
		return a
	}
	clusters := take(api.ClusterType, nil).names
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(n string) bool { return n == "BlackHoleCluster" })
	take(api.EndpointType, clusters)
	take(api.ListenerType, nil)
	take(api.RouteType, []string{"80"})
	return has
}

func (h configuration) names(typeURL string) []string { return slices.Sorted(maps.Keys(h[typeURL])) }
