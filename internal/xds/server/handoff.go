package server

import (
	"context"
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// handlerFor returns the Handler that a client selects with GENERATOR in its node metadata. It
// returns nil if GENERATOR is missing, as for a proxy, or names no Handler.
func (s *Server) handlerFor(node *corev3.Node) Handler {
	return s.generators[node.GetMetadata().GetFields()["GENERATOR"].GetStringValue()]
}

// handOver lets h serve the stream, beginning with the request first, and returns its error. It
// refuses a node ID that is too long or not printable with InvalidArgument. If h fails after the
// stream has ended, it returns the cause of that instead, except for context.Canceled, which it
// returns as it is.
func (x *session) handOver(h Handler, first *incoming) error {
	if err := mesh.CheckNodeText("node id", first.node.GetId()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	in := x.readRequests(first)
	hello := x.describeClient(first.node)
	var err error
	if x.mode == stream.Delta {
		err = h.ServeDelta(x.ctx, hello, deltaHandoff{handoff{x, in}})
	} else {
		err = h.ServeSotW(x.ctx, hello, sotwHandoff{handoff{x, in}})
	}
	if err != nil && x.ctx.Err() != nil && !errors.Is(err, context.Canceled) {
		return context.Cause(x.ctx) // the Handler failed because the stream has ended
	}
	return err
}

// readRequests returns a channel of the stream's requests, beginning with first. A goroutine reads
// until the stream or the session ends, and ends the session if reading fails or panics. The
// channel is never closed.
func (x *session) readRequests(first *incoming) <-chan *incoming {
	c := make(chan *incoming, 1)
	c <- first
	go func() {
		defer x.recoverStream("read")
		for {
			m, err := x.nextRequest()
			if err != nil {
				x.end(err)
				return
			}
			select {
			case c <- m:
			case <-x.ctx.Done():
				return
			}
		}
	}()
	return c
}

// handoff is a session as a Handler sees it.
type handoff struct {
	x  *session
	in <-chan *incoming
}

// recv decodes the next request into a message of the stream's protocol variant, waiting for one.
// It returns an error if the request is malformed. If the stream has ended and no request is left,
// it returns the cause.
func (h handoff) recv(into proto.Message) error {
	select {
	case m := <-h.in:
		return proto.Unmarshal([]byte(m.raw), into)
	default:
	}
	select {
	case m := <-h.in:
		return proto.Unmarshal([]byte(m.raw), into)
	case <-h.x.ctx.Done():
		return context.Cause(h.x.ctx)
	}
}

type sotwHandoff struct{ handoff }

var _ SotWStream = sotwHandoff{}

// Send writes a response and waits until the client has read it (writeMessage).
func (h sotwHandoff) Send(m *discoveryv3.DiscoveryResponse) error { return h.x.writeMessage(m) }

// Recv waits for the next request and returns it decoded. If the stream has ended and no request is
// left, it returns the cause.
func (h sotwHandoff) Recv() (*discoveryv3.DiscoveryRequest, error) {
	m := new(discoveryv3.DiscoveryRequest)
	if err := h.recv(m); err != nil {
		return nil, err
	}
	return m, nil
}

type deltaHandoff struct{ handoff }

var _ DeltaStream = deltaHandoff{}

// Send writes a response and waits until the client has read it (writeMessage).
func (h deltaHandoff) Send(m *discoveryv3.DeltaDiscoveryResponse) error { return h.x.writeMessage(m) }

// Recv waits for the next request and returns it decoded. If the stream has ended and no request is
// left, it returns the cause.
func (h deltaHandoff) Recv() (*discoveryv3.DeltaDiscoveryRequest, error) {
	m := new(discoveryv3.DeltaDiscoveryRequest)
	if err := h.recv(m); err != nil {
		return nil, err
	}
	return m, nil
}

// describeClient returns the address, TLS state, identities and cluster of the client with the
// given node, for Handlers and Debug.
func (x *session) describeClient(node *corev3.Node) Hello {
	return Hello{
		Node:       node,
		Peer:       x.link.peer,
		Secure:     x.link.TLS() != nil,
		Identities: x.identities,
		Cluster:    x.cluster,
	}
}
