package replay_test

import (
	"bytes"
	"context"
	"math"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/test/perf/replay"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// TestFollowers checks that the second proxy of a namespace is sent what the first one is sent, but
// has no stream to the control plane, and that a proxy of another namespace has one.
func TestFollowers(t *testing.T) {
	c := newControlPlane(t)
	server := startServer(t, c.address)
	a := connect(t, server, wire.DeltaMethod)
	a.send(request(node("a", "shop"), wire.CDS, ""))
	up := c.nextStream()
	if got := up.receive(); !bytes.Equal(got, request(node("a", "shop"), wire.CDS, "")) {
		t.Errorf("the control plane received %q", got)
	}
	b := connect(t, server, wire.DeltaMethod)
	b.send(request(node("b", "shop"), wire.CDS, ""))
	up.send(response(wire.CDS, "1"))
	a.want(response(wire.CDS, "1"))
	b.want(response(wire.CDS, "1"))
	late := connect(t, server, wire.DeltaMethod)
	late.send(request(node("late", "shop"), wire.CDS, ""))
	late.want(response(wire.CDS, "1"))

	b.send(request(nil, wire.CDS, "1")) // an acknowledgement asks for nothing
	a.send(request(nil, wire.EDS, ""))
	up.receive()
	up.send(response(wire.EDS, "1"))
	up.send(response(wire.CDS, "2"))
	a.want(response(wire.EDS, "1"))
	a.want(response(wire.CDS, "2"))
	b.want(response(wire.CDS, "2")) // it has not requested EDS
	b.send(request(nil, wire.EDS, ""))
	b.want(response(wire.EDS, "1"))

	other := connect(t, server, wire.DeltaMethod)
	other.send(request(node("c", "other"), wire.LDS, ""))
	second := c.nextStream()
	second.receive()
	second.send(response(wire.LDS, "3"))
	other.want(response(wire.LDS, "3"))
}

// TestLeaderLeaves checks that the streams of a namespace end with the first one, and that the next
// leader has its node.
func TestLeaderLeaves(t *testing.T) {
	c := newControlPlane(t)
	server := startServer(t, c.address)
	a := connect(t, server, wire.DeltaMethod)
	a.send(request(node("a", "shop"), wire.CDS, ""))
	up := c.nextStream()
	up.receive()
	up.send(response(wire.CDS, "1"))
	b := connect(t, server, wire.DeltaMethod)
	b.send(request(node("b", "shop"), wire.CDS, ""))
	b.want(response(wire.CDS, "1"))
	a.cancel()
	if err := b.st.RecvMsg(new(wire.Frame)); status.Code(err) != codes.Unavailable {
		t.Fatalf("after the leader has left: %v, want Unavailable", err)
	}
	b = connect(t, server, wire.DeltaMethod)
	b.send(request(node("b", "shop"), wire.CDS, ""))
	if got := c.nextStream().receive(); !bytes.Equal(got, request(node("a", "shop"), wire.CDS, "")) {
		t.Errorf("the control plane received %q, want the node of the first leader", got)
	}
}

// TestControlPlaneRefuses checks that a proxy gets the reason for which the control plane has ended
// the stream.
func TestControlPlaneRefuses(t *testing.T) {
	refusing := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "not you")
	}))
	t.Cleanup(refusing.Stop)
	x := connect(t, startServer(t, serve(t, refusing)), wire.DeltaMethod)
	x.send(request(node("a", "shop"), wire.CDS, ""))
	if err := x.st.RecvMsg(new(wire.Frame)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v, want PermissionDenied", err)
	}
}

// TestRefusals checks what is refused: other methods, and streams without a namespace.
func TestRefusals(t *testing.T) {
	server := startServer(t, newControlPlane(t).address)
	x := connect(t, server, wire.SotWMethod)
	if err := x.st.RecvMsg(new(wire.Frame)); status.Code(err) != codes.Unimplemented {
		t.Errorf("state of the world: %v, want Unimplemented", err)
	}
	for name, first := range map[string][]byte{
		"no node":      request(nil, wire.CDS, ""),
		"no namespace": request(wire.AppendString(nil, 1, "sidecar"), wire.CDS, ""),
		"malformed":    {0xff},
	} {
		x := connect(t, server, wire.DeltaMethod)
		x.send(first)
		if err := x.st.RecvMsg(new(wire.Frame)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, err)
		}
	}
}

// node returns an encoded Node.
func node(name, namespace string) []byte {
	return wire.AppendString(nil, 1, "sidecar~10.0.0.1~"+name+"."+namespace+"~"+namespace+".svc.cluster.local")
}

// request returns an encoded DeltaDiscoveryRequest.
func request(node []byte, t wire.Type, nonce string) []byte {
	var b []byte
	if node != nil {
		b = wire.AppendBytes(nil, 1, node)
	}
	return wire.AppendString(wire.AppendString(b, 2, t.URL()), 6, nonce)
}

// response returns an encoded DeltaDiscoveryResponse.
func response(t wire.Type, nonce string) []byte {
	return wire.AppendString(wire.AppendString(nil, 4, t.URL()), 5, nonce)
}

// stream is an end of a stream in a test.
type stream struct {
	t  *testing.T
	st interface {
		SendMsg(any) error
		RecvMsg(any) error
	}
	cancel context.CancelFunc
}

func (x *stream) send(b []byte) {
	x.t.Helper()
	if err := x.st.SendMsg(b); err != nil {
		x.t.Fatal(err)
	}
}

func (x *stream) receive() []byte {
	x.t.Helper()
	var f wire.Frame
	if err := x.st.RecvMsg(&f); err != nil {
		x.t.Fatal(err)
	}
	return f.Bytes()
}

func (x *stream) want(b []byte) {
	x.t.Helper()
	if got := x.receive(); !bytes.Equal(got, b) {
		x.t.Fatalf("received %q, want %q", got, b)
	}
}

// controlPlane is a gRPC server whose streams belong to the test.
type controlPlane struct {
	t       *testing.T
	address string
	streams chan grpc.ServerStream
}

func newControlPlane(t *testing.T) *controlPlane {
	c := &controlPlane{t: t, streams: make(chan grpc.ServerStream, 1)}
	s := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec{}), grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error {
		c.streams <- st
		<-st.Context().Done()
		return nil
	}))
	c.address = serve(t, s)
	t.Cleanup(s.Stop)
	return c
}

// nextStream returns the next stream, and fails the test if there is none.
func (c *controlPlane) nextStream() *stream {
	c.t.Helper()
	select {
	case st := <-c.streams:
		return &stream{t: c.t, st: st}
	case <-time.After(20 * time.Second):
		c.t.Fatal("the control plane has no further stream")
		return nil
	}
}

func serve(t *testing.T, s *grpc.Server) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }() // it returns when the server stops
	return listener.Addr().String()
}

// startServer starts a Server that replays the responses of the control plane at the address.
func startServer(t *testing.T, address string) string {
	t.Helper()
	s, err := replay.New(address, insecure.NewCredentials())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return serve(t, s.GRPC())
}

// connect opens a stream that lasts at most a minute.
func connect(t *testing.T, address, method string) *stream {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.ForceCodecV2(wire.Codec{})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(func() { cancel(); conn.Close() })
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{t: t, st: st, cancel: cancel}
}
