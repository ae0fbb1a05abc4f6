package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// protocols returns how to make one call to an address in each protocol. A call takes a moment.
func protocols(t *testing.T) map[string]func(ctx context.Context, address string) error {
	t.Helper()
	kept, fresh, two := &http.Transport{}, &http.Transport{
		DisableKeepAlives: true,
	}, &http.Transport{
		Protocols: new(http.Protocols),
	}
	two.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(func() {
		for _, transport := range []*http.Transport{kept, fresh, two} {
			transport.CloseIdleConnections()
		}
	})
	get := func(transport *http.Transport) func(context.Context, string) error {
		return func(_ context.Context, address string) error {
			return request(&http.Client{Transport: transport, Timeout: patience}, "http://"+address+"/pause")
		}
	}
	return map[string]func(context.Context, string) error{
		"HTTP/1.1 on a connection that is kept": get(
			kept,
		),
		"HTTP/1.1 on new connections": get(fresh),
		"HTTP/2":                      get(two),
		"a gRPC stream":               callStream,
		"TCP":                         callTCP,
	}
}

// The number of messages in a stream, and the pause between them.
const (
	messages = 5
	pause    = 30 * time.Millisecond
)

func callStream(ctx context.Context, address string) error {
	connection, err := grpc.NewClient(
		"passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	for range messages {
		if err := stream.Send(&discoveryv3.DiscoveryRequest{}); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("at the end of the stream: %w", err)
	}
	return nil
}

func callTCP(_ context.Context, address string) error {
	connection, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer connection.Close()
	b := make([]byte, 1)
	for range messages {
		if _, err := connection.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(connection, b); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// echo echoes the messages of streams.
type echo struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (echo) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(&discoveryv3.DiscoveryResponse{}); err != nil {
			return err
		}
	}
}

// startWeb serves HTTP/1.1, HTTP/2 and gRPC on a port, startEcho serves TCP.
func startWeb(t *testing.T) int {
	t.Helper()
	rpc := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(rpc, echo{})
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && r.Header.Get("Content-Type") == "application/grpc" {
				rpc.ServeHTTP(w, r)
				return
			}
			time.Sleep(pause)
			fmt.Fprint(w, "hello")
		}),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
}

func startEcho(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
}

// asClients makes a cluster use its client's protocol to the application.
func asClients(t *testing.T, c *clusterv3.Cluster) *clusterv3.Cluster {
	t.Helper()
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": pack(t, &httpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
				UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
					HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
				},
			},
		}),
	}
	return c
}

// TestSIGTERMLosesNoRequest tests that no call in any protocol is lost when a workload ends under
// load: active ones finish, and new ones are served until callers have moved elsewhere. It ends in
// time.
func TestSIGTERMLosesNoRequest(t *testing.T) {
	rounds := scorecard.BySize(1, 20, 1000)
	check := scorecard.Check(
		t,
		13,
		scorecard.Size("terminations in each of two ways", rounds),
		scorecard.Size("protocols", len(protocols(t))),
	)
	var calls, lost, longest atomic.Int64
	defer func() {
		check.Measured("calls", calls.Load())
		check.Measured("calls lost", lost.Load())
		check.Measured("longest until the agent ended", time.Duration(longest.Load()))
	}()
	for name, env := range map[string][]string{
		"in a fixed time":           nil,
		"until nobody is connected": {"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if env != nil {
				longtest.Test(t)
			}
			for range rounds {
				if t.Failed() {
					break
				}
				t.Run(
					"once",
					func(t *testing.T) { longest.Store(max(longest.Load(), int64(drainUnderLoad(t, env, &calls, &lost)))) },
				)
			}
		})
	}
}

// drainUnderLoad returns how long the agent took to end.
func drainUnderLoad(t *testing.T, env []string, calls, lost *atomic.Int64) (took time.Duration) {
	t.Helper()
	const learn, grace = 500 * time.Millisecond, 2 * time.Second
	web, tcp := startWeb(t), startEcho(t)
	p := serving.FreePorts(t, 2)
	bytes := tcpListener(t, p[1], "tcp")
	bytes.TrafficDirection = corev3.TrafficDirection_INBOUND
	plane := localControlPlane(t,
		asClients(t, cluster("web", "127.0.0.1", web)), cluster("tcp", "127.0.0.1", tcp),
		listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", p[0], "in", "web"), bytes)
	a := startAgent(
		t,
		settings{
			config: map[string]any{"discoveryAddress": plane, "terminationDrainDuration": grace.String()},
			env:    env,
		},
	)
	a.awaitReady(t)

	var elsewhere atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var made sync.Map
	for name, call := range protocols(t) {
		here, there := p[0], web
		if name == "TCP" {
			here, there = p[1], tcp
		}
		count := new([2]atomic.Int64)
		made.Store(name, count)
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					to, port := 0, here
					if elsewhere.Load() {
						to, port = 1, there
					}
					if err := call(ctx, fmt.Sprintf("127.0.0.1:%d", port)); err != nil && ctx.Err() == nil {
						lost.Add(1)
						t.Errorf("%s: %v", name, err)
						return
					}
					calls.Add(1)
					count[to].Add(1)
				}
			})
		}
	}
	everyone := func(to int) func() error {
		return func() (err error) {
			made.Range(func(name, count any) bool {
				if n := count.(*[2]atomic.Int64)[to].Load(); n < 5 { //nolint:forcetypeassert // stored above
					err = fmt.Errorf("%s: %d calls", name, n)
				}
				return err == nil
			})
			return err
		}
	}
	serving.Eventually(t, patience, "calls in all protocols", everyone(0))
	begin := time.Now()
	a.signal(t, syscall.SIGTERM)
	time.AfterFunc(learn, func() { elsewhere.Store(true) })
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	if took = time.Since(begin); took > 2*grace {
		t.Errorf("the agent ended after %v", took)
	}
	serving.Eventually(t, patience, "calls elsewhere", everyone(1))
	cancel()
	all.Wait()
	return took
}
