package server

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// Guard registers services other than ADS on a gRPC server that was created with ServerOptions, and
// applies the limits of the port to them. A call whose first message does not arrive in time is
// ended. Messages are bounded before they are decoded.
type Guard struct {
	*grpc.Server
	// Authenticate is called with the context of a call before any of its messages is read. The
	// error is a gRPC status, with which the call ends. If nil, the service itself authenticates
	// its callers, before it decodes a message.
	Authenticate func(ctx context.Context) error
	// Recovery confines a panic over one call to it. If nil, panics are not recovered.
	Recovery *recovery.Recorder
}

// RegisterService registers a service whose unary and streaming handlers are guarded (guardUnary,
// guardStream). desc is not changed.
func (g Guard) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc
	guarded.Methods = slices.Clone(desc.Methods)
	for i := range guarded.Methods {
		guarded.Methods[i].Handler = g.guardUnary(desc.Methods[i].Handler)
	}
	guarded.Streams = slices.Clone(desc.Streams)
	for i := range guarded.Streams {
		guarded.Streams[i].Handler = g.guardStream(desc.Streams[i].Handler)
	}
	g.Server.RegisterService(&guarded, impl)
}

// guardUnary returns a handler that authenticates the caller and then calls serve, within the
// limits of the port and with recovery of panics (runHandler). If authentication fails, it returns
// that error without calling serve.
func (g Guard) guardUnary(serve grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any,
		error) {
		c := newGuardedCall(ctx, g.Recovery)
		return c.runHandler(func(ctx context.Context) (any, error) {
			if err := g.authenticate(ctx); err != nil {
				return nil, err
			}
			return serve(srv, ctx, func(v any) error { return c.receiveMessage(v, dec) }, interceptor)
		})
	}
}

// guardStream returns a handler that authenticates the caller and then calls serve, within the
// limits of the port and with recovery of panics (runHandler). If authentication fails, it returns
// that error without calling serve.
func (g Guard) guardStream(serve grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, st grpc.ServerStream) error {
		c := newGuardedCall(st.Context(), g.Recovery)
		_, err := c.runHandler(func(ctx context.Context) (any, error) {
			if err := g.authenticate(ctx); err != nil {
				return nil, err
			}
			return nil, serve(srv, &guardedStream{st, c, ctx})
		})
		return err
	}
}

// authenticate returns the error of g.Authenticate, or nil if that is not set.
func (g Guard) authenticate(ctx context.Context) error {
	if g.Authenticate == nil {
		return nil
	}
	return g.Authenticate(ctx)
}

// guardedCall is a call of a guarded service.
type guardedCall struct {
	link     *link
	recovery *recovery.Recorder
	ctx      context.Context
	cancel   context.CancelCauseFunc
	pending  *pendingEntry
	received atomic.Bool // the first message was received
}

// newGuardedCall returns a call on the connection of ctx, whose own context its limits can cancel.
func newGuardedCall(ctx context.Context, r *recovery.Recorder) *guardedCall {
	c := &guardedCall{link: linkOf(ctx), recovery: r}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

var errNoMessage = status.Error(codes.DeadlineExceeded, "the first message did not arrive in time")

// outcome is the result of a handler.
type outcome struct {
	reply any
	err   error
}

// runHandler runs the handler of a call and returns its result, or errInternal if it panics. It
// returns without waiting for the handler if the first message does not arrive in time, if newer
// calls displace this one before that, or if the call is canceled. gRPC then ends the call, which
// also unblocks the handler. On a connection without a port, the handler runs without limits and
// recovery.
func (c *guardedCall) runHandler(handler func(context.Context) (any, error)) (any, error) {
	defer c.cancel(nil)
	if c.link.port == nil {
		return handler(c.ctx)
	}
	c.link.beginCall()
	defer c.link.endCall()
	c.pending = c.link.port.calls.add(c.link.source, func() { c.cancel(errDisplaced) })
	defer c.pending.remove()
	patience := time.AfterFunc(c.link.port.limits.FirstRequest, func() {
		if !c.received.Load() {
			c.cancel(errNoMessage)
		}
	})
	defer patience.Stop()
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		if err := c.recovery.Call(
			"grpc",
			func() error { o.reply, o.err = handler(c.ctx); return nil },
			"doing",
			"serve a call",
		); err != nil {
			o = outcome{err: errInternal}
		}
		done <- o
	}()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-c.ctx.Done():
		err := context.Cause(c.ctx)
		if s, ok := status.FromError(err); ok {
			return nil, s.Err()
		}
		return nil, status.FromContextError(err).Err()
	}
}

// guardedMessage is a message that the codec bounds. The error is a gRPC status or a decoding
// error.
type guardedMessage struct {
	message any
	link    *link
	size    int
	err     error
}

// receiveMessage reads a message into v with read, whose error it returns as it is, and credits the
// message to the unread budget. The error of a message that cannot be decoded is InvalidArgument,
// of one over a limit ResourceExhausted. Only a decoded message ends the time limit for the first
// message. From then on neither the call nor its connection is displaced by newer ones.
func (c *guardedCall) receiveMessage(v any, read func(any) error) error {
	m := &guardedMessage{message: v, link: c.link}
	c.link.beginReceive()
	err := read(m)
	c.link.endReceive()
	if err != nil {
		return err
	}
	c.link.creditDecoded(m.size)
	if m.err != nil {
		if status.Code(m.err) == codes.Unknown {
			return status.Errorf(codes.InvalidArgument, "decode the message: %v", m.err)
		}
		return m.err
	}
	c.received.Store(true)
	c.pending.remove()
	c.link.markAdmitted()
	return nil
}

// guardedStream is the stream of a guarded call.
type guardedStream struct {
	grpc.ServerStream
	call *guardedCall
	ctx  context.Context
}

// Context returns the context of the guarded call, which its limits can cancel.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg reads a message within the limits of the port.
func (s *guardedStream) RecvMsg(v any) error { return s.call.receiveMessage(v, s.ServerStream.RecvMsg) }
