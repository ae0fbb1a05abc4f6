package server

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// session is one stream being served.
type session struct {
	s       *Server
	st      grpc.ServerStream
	mode    stream.Mode
	ctx     context.Context         // ends with the stream, its cause is the status
	end     context.CancelCauseFunc // ends it
	written chan error
}

// healthType is what agents send the state of a workload with. Such a request may come before any other, without a node.
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// slowest is the rate in bytes per second that a proxy must at least read at for its stream to last.
const slowest = 4 << 10

// hello is the first request of a stream.
type hello struct {
	proxy   *mesh.Proxy
	request stream.Request
	err     error
}

func (x *session) run() error {
	first := make(chan hello, 1)
	go func() { first <- x.hello() }()
	var h hello
	select {
	case h = <-first:
	case <-x.s.clock.After(x.s.sendTimeout):
		return status.Error(codes.DeadlineExceeded, "no request came on the stream")
	case <-x.ctx.Done():
		return x.status(context.Cause(x.ctx))
	}
	if h.err != nil {
		return x.status(h.err)
	}
	address := ""
	if p, ok := peer.FromContext(x.ctx); ok {
		address = p.Addr.String()
	}
	c := x.s.pusher.Connect(h.proxy, x.mode, address)
	defer c.Close()
	c.Request(h.request)
	go x.receive(c)
	return x.status(x.send(c))
}

// hello reads up to the first request that asks for something, which must say who the proxy is.
func (x *session) hello() hello {
	for {
		r, node, err := x.next()
		switch {
		case err != nil:
			return hello{err: err}
		case r.TypeURL == healthType:
			continue
		}
		proxy, err := x.s.proxy(node)
		if err != nil {
			err = status.Error(codes.InvalidArgument, err.Error())
		}
		return hello{proxy, r, err}
	}
}

// receive takes requests in until there are no more.
func (x *session) receive(c *push.Client) {
	for {
		r, _, err := x.next()
		if err != nil {
			x.end(err)
			return
		}
		if r.TypeURL != healthType {
			c.Request(r)
		}
	}
}

// send writes responses until the stream ends, and says why it did.
func (x *session) send(c *push.Client) error {
	for {
		out, err := c.Next(x.ctx)
		if err != nil {
			return err
		}
		began := x.s.clock.Now()
		r := newResponse(out, x.mode, x.s.identifier)
		if err := x.write(r); err != nil {
			return err
		}
		c.Sent(out, r.size, x.s.clock.Now().Sub(began))
	}
}

// write writes a response. A proxy that does not read blocks the writing, and is given up after a time: it connects again
// if it is alive, and is found by keepalive if it is not.
func (x *session) write(r *response) error {
	go func() { x.written <- x.st.SendMsg(r) }()
	limit := x.s.sendTimeout + time.Duration(r.size)*time.Second/time.Duration(x.s.slowest)
	select {
	case err := <-x.written:
		return err
	case <-x.ctx.Done():
		return x.ctx.Err()
	case <-x.s.clock.After(limit):
		x.s.metrics.WriteTimeout()
		return status.Errorf(codes.DeadlineExceeded, "a response of %d bytes could not be written within %v", r.size, limit)
	}
}

// status gives the gRPC status with which a stream ends.
func (x *session) status(err error) error {
	var broken push.ProtocolError
	switch {
	case errors.Is(err, context.Canceled) && context.Cause(x.ctx) != nil && !errors.Is(context.Cause(x.ctx), context.Canceled):
		return x.status(context.Cause(x.ctx))
	case errors.Is(err, io.EOF): // the proxy has nothing more to say
		return nil
	case errors.As(err, &broken):
		return status.Error(codes.InvalidArgument, broken.Reason)
	case errors.Is(err, context.Canceled):
		return status.FromContextError(context.Canceled).Err()
	default:
		return err
	}
}
