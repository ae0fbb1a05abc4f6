package relay

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// waitTimeout bounds every wait.
const patience = 20 * time.Second

// plane is a control plane whose responses the test provides: it is handed each stream.
type plane struct {
	address string
	streams chan *upstream
	server  *grpc.Server
}

// upstream is a stream at the control plane.
type upstream struct {
	form   protocol
	stream grpc.ServerStream
	header metadata.MD
	done   chan error // ends it with an error
}

func startPlane(t *testing.T, options ...grpc.ServerOption) *plane {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{address: l.Addr().String(), streams: make(chan *upstream, 16)}
	p.server = grpc.NewServer(append(options, grpc.ForceServerCodecV2(frameCodec{}), grpc.MaxRecvMsgSize(maxMessage))...)
	handler := func(f protocol) func(any, grpc.ServerStream) error {
		return func(_ any, s grpc.ServerStream) error {
			header, _ := metadata.FromIncomingContext(s.Context())
			u := &upstream{form: f, stream: s, header: header, done: make(chan error, 1)}
			p.streams <- u
			select {
			case err := <-u.done:
				return err
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
	}
	p.server.RegisterService(&grpc.ServiceDesc{ServiceName: adsService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
		{StreamName: "StreamAggregatedResources", Handler: handler(sotw{}), ServerStreams: true, ClientStreams: true},
		{StreamName: "DeltaAggregatedResources", Handler: handler(delta{}), ServerStreams: true, ClientStreams: true},
	}}, nil)
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(l) }()
	t.Cleanup(func() {
		p.server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

// accept returns the next stream.
func (p *plane) accept(t *testing.T) *upstream {
	t.Helper()
	return take(t, p.streams, "a stream at the control plane")
}

func take[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

// recv returns the next request as it arrived.
func (u *upstream) recv(t *testing.T) frame {
	t.Helper()
	var f frame
	got := make(chan error, 1)
	go func() { got <- u.stream.RecvMsg(&f) }()
	if err := take(t, got, "request at the control plane"); err != nil {
		t.Fatal(err)
	}
	return f
}

func (u *upstream) send(t *testing.T, m proto.Message) {
	t.Helper()
	f := wire(t, m)
	if err := u.stream.SendMsg(&f); err != nil {
		t.Fatal(err)
	}
}

func wire(t *testing.T, m proto.Message) frame {
	t.Helper()
	f, err := encodeFrame(m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// world is a relay with Envoys controlled by the test.
type world struct {
	*Relay
	path string
	log  *serving.Log
}

func startRelay(t *testing.T, o Options, addresses ...string) *world {
	t.Helper()
	w := &world{path: filepath.Join(t.TempDir(), "XDS"), log: new(serving.Log)}
	o.Target.Addresses, o.Target.Plaintext, o.Log = addresses, true, slog.New(slog.NewTextHandler(w.log, nil))
	w.Relay = New(o)
	l, err := socket.Listen(w.path, socket.OwnerAndGroup)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := take(t, served, "end of the relay"); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.log)
		}
	})
	return w
}

// envoy is a stream of Envoy.
type envoy struct {
	stream grpc.ClientStream
	cancel context.CancelFunc
}

// dial opens a stream as Envoy does.
func (w *world) dial(t *testing.T, f protocol) *envoy {
	t.Helper()
	connection, err := grpc.NewClient("unix:"+w.path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frameCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, f.methodName())
	if err != nil {
		t.Fatal(err)
	}
	return &envoy{stream, cancel}
}

func (e *envoy) send(t *testing.T, m proto.Message) frame {
	t.Helper()
	f := wire(t, m)
	if err := e.stream.SendMsg(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (e *envoy) recv(t *testing.T) (frame, error) {
	t.Helper()
	type result struct {
		f   frame
		err error
	}
	got := make(chan result, 1)
	go func() {
		var r result
		r.err = e.stream.RecvMsg(&r.f)
		got <- r
	}()
	r := take(t, got, "response at Envoy")
	return r.f, r.err
}

// ask returns a request in a protocol.
func ask(f protocol, typeURL, nonce string, names ...string) proto.Message {
	node := &corev3.Node{Id: "sidecar~1.2.3.4~a.b~c"}
	if _, ok := f.(delta); ok {
		return &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL, ResponseNonce: nonce, ResourceNamesSubscribe: names}
	}
	return &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURL, ResponseNonce: nonce, ResourceNames: names}
}

// say returns a response in a protocol.
func say(f protocol, typeURL, nonce string, resources ...*discoveryv3.Resource) proto.Message {
	if _, ok := f.(delta); ok {
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, Resources: resources}
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, VersionInfo: "v" + nonce}
	for _, r := range resources {
		m.Resources = append(m.Resources, r.GetResource())
	}
	return m
}

func eachForm(t *testing.T, test func(t *testing.T, f protocol)) {
	t.Helper()
	t.Run("sotw", func(t *testing.T) { test(t, sotw{}) })
	t.Run("delta", func(t *testing.T) { test(t, delta{}) })
}

func typeOf(t *testing.T, f protocol, request frame) string {
	t.Helper()
	typeURL, err := f.requestType(request)
	if err != nil {
		t.Fatal(err)
	}
	return typeURL
}
