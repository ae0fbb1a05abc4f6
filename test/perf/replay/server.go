package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

const (
	// The sizes of buffers and windows are the same as in internal/xds/server/transport.go.
	writeBuffer, readBuffer, readBufferTLS = 128 << 10, 32 << 10, 8 << 10
	window                                 = 64<<10 - 1
	// upstreamWindow is how much the control plane may send ahead.
	upstreamWindow = 1 << 20
)

// Server replays the responses of a control plane. Use New to create it.
type Server struct {
	upstream *grpc.ClientConn
	server   *grpc.Server

	mu     sync.Mutex
	groups map[string]*group // by namespace
	// nodes has the node of the first leader of each namespace.
	nodes map[string][]byte
}

// New returns a server for the control plane at an address, which must take plain text. Proxies
// connect with the given credentials. Stop must be called in the end.
func New(address string, c credentials.TransportCredentials) (*Server, error) {
	upstream, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(upstreamWindow), grpc.WithInitialConnWindowSize(upstreamWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.ForceCodecV2(wire.Codec{})))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	read := readBuffer
	if c.Info().SecurityProtocol == "tls" {
		read = readBufferTLS
	}
	s := &Server{upstream: upstream, groups: map[string]*group{}, nodes: map[string][]byte{}}
	s.server = grpc.NewServer(
		grpc.Creds(c), grpc.ForceServerCodecV2(wire.Codec{}), grpc.UnknownServiceHandler(s.serveStream),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.WriteBufferSize(writeBuffer), grpc.ReadBufferSize(read),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window))
	return s, nil
}

// GRPC returns the gRPC server, whose Serve must be called.
func (s *Server) GRPC() *grpc.Server { return s.server }

// Stop ends all streams and closes all connections.
func (s *Server) Stop() {
	s.server.Stop()
	_ = s.upstream.Close() // its streams have ended
}

// serveStream serves the stream of a proxy until it ends. The first stream of a namespace leads.
func (s *Server) serveStream(_ any, st grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(st); method != wire.DeltaMethod {
		return status.Errorf(codes.Unimplemented, "%s: only %s is served", method, wire.DeltaMethod)
	}
	var first wire.Frame
	if err := st.RecvMsg(&first); err != nil {
		return err
	}
	r, err := parseRequest(first.Bytes())
	if err != nil || r.namespace == "" {
		return status.Errorf(codes.InvalidArgument, "the first request has no node with a namespace: %v", err)
	}
	x := newMember(st)
	g, node := s.join(&r, x)
	defer s.leave(r.namespace, g, x)
	if node == nil {
		first.Free()
		return x.follow(g, r.typeURL)
	}
	request, err := withNode(first.Bytes(), node)
	first.Free()
	if err != nil {
		return err
	}
	return s.lead(x, g, request)
}

// join adds a stream to the group of its namespace. If it is the first one, it leads the group, and
// join returns the node with which the control plane is to know it. That is always the same node of
// the namespace: proxies that connect with the state of another one would be sent the difference.
func (s *Server) join(r *request, x *member) (g *group, node []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g = s.groups[r.namespace]; g == nil {
		g = newGroup(x)
		s.groups[r.namespace] = g
		if s.nodes[r.namespace] == nil {
			s.nodes[r.namespace] = bytes.Clone(r.node)
		}
		node = s.nodes[r.namespace]
	}
	g.add(x)
	return g, node
}

// leave removes a stream from its group. When its leader leaves, the group ends with all its
// streams.
func (s *Server) leave(namespace string, g *group, x *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.remove(x) && s.groups[namespace] == g {
		delete(s.groups, namespace)
	}
}

// lead forwards the first and all other requests of a stream to the control plane, and the
// responses to its group. It returns when either stream ends.
func (s *Server) lead(x *member, g *group, first []byte) error {
	ctx, cancel := context.WithCancel(x.st.Context())
	defer cancel()
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		for _, cluster := range in.Get("ClusterID") {
			ctx = metadata.AppendToOutgoingContext(ctx, "ClusterID", cluster)
		}
	}
	up, err := s.upstream.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, wire.DeltaMethod)
	if err != nil {
		return err
	}
	if err := up.SendMsg(first); err != nil && !errors.Is(err, io.EOF) { // RecvMsg returns the reason of io.EOF
		return err
	}
	return x.run(
		func() error { return forwardRequests(x.st, up) },
		func() error { return g.distributeResponses(up) },
	)
}

// forwardRequests sends the requests of a stream to the control plane until the stream ends. When
// the control plane ends its stream, it waits: receiving from the control plane returns the reason.
func forwardRequests(from grpc.ServerStream, to grpc.ClientStream) error {
	for {
		var f wire.Frame
		if err := from.RecvMsg(&f); err != nil {
			return err
		}
		err := to.SendMsg(bytes.Clone(f.Bytes()))
		f.Free()
		if errors.Is(err, io.EOF) {
			<-from.Context().Done()
			return from.Context().Err()
		}
		if err != nil {
			return err
		}
	}
}
