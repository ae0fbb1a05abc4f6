package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// session is one stream being served.
type session struct {
	s    *Server
	st   grpc.ServerStream
	mode stream.Mode
	link *link
	ctx  context.Context         // ends with the stream, its cause is the status
	end  context.CancelCauseFunc // ends it
	// identities are who has opened it, by what was proved.
	identities []string
	workload   Workload // nil: it is of none that is registered

	writing sync.Mutex    // one response at a time
	written chan struct{} // gets a token when gRPC has written the response
	busy    atomic.Bool   // a response is being written
}

func newSession(s *Server, st grpc.ServerStream, mode stream.Mode) *session {
	x := &session{s: s, st: st, mode: mode, link: linkOf(st.Context()), written: make(chan struct{}, 1)}
	x.ctx, x.end = context.WithCancelCause(st.Context())
	return x
}

// first is the first request that asks for something, and the proxy that it comes from, nil if the client is none.
type first struct {
	*incoming
	proxy *mesh.Proxy
	// health is the newest message about it that came before, nil if none did.
	health *incoming
	err    error
}

// authenticate finds out who has opened the stream.
func (x *session) authenticate() (err error) {
	if x.s.authenticate == nil {
		x.identities = x.link.identities()
		return nil
	}
	x.identities, err = x.s.authenticate(x.ctx)
	return err
}

// run serves the stream.
func (x *session) run() error {
	if err := x.authenticate(); err != nil {
		return x.status(err)
	}
	a := x.s.admission
	if err := a.begin(x.ctx); err != nil {
		return x.status(err)
	}
	in, leave, err := x.open()
	if err != nil {
		return x.status(err)
	}
	defer leave()
	switch {
	case isDebug(in.TypeURL):
		return x.status(x.answerAll(in.incoming, leave))
	case in.proxy == nil:
		leave()
		return x.status(x.handOver(x.s.handler(in.node), in.incoming))
	}
	in.node, in.raw = nil, "" // what is left is small, unless the proxy has state
	unregister, err := x.register(in, leave)
	if err != nil {
		return x.status(err)
	}
	defer unregister()
	if in.Held.Len() > 0 && x.workload == nil {
		return x.status(x.serve(in.proxy, in.Request, leave))
	}
	leave()
	opened, err := a.enter(x.ctx, a.opening)
	if err != nil {
		return x.status(err)
	}
	defer opened()
	return x.status(x.serve(in.proxy, in.Request, opened))
}

// open reads the first request, and gives the place that it took. Without one it waits for a request that does not come.
func (x *session) open() (first, func(), error) {
	a := x.s.admission
	leave, err := a.enter(x.ctx, a.reading)
	if err != nil {
		return first{}, nil, err
	}
	c := make(chan first, 1)
	go func() { c <- x.first() }()
	select {
	case in := <-c:
		if in.err != nil {
			leave()
		}
		return in, leave, in.err
	case <-x.ctx.Done():
		leave()
		return first{}, nil, context.Cause(x.ctx)
	case <-a.clock.After(readingLimit):
		leave()
	}
	select {
	case in := <-c:
		if in.err != nil {
			return first{}, nil, in.err
		}
		leave, err := a.enter(x.ctx, a.reading)
		return in, leave, err
	case <-x.ctx.Done():
		return first{}, nil, context.Cause(x.ctx)
	case <-a.clock.After(x.s.sendTimeout):
		return first{}, nil, status.Error(codes.DeadlineExceeded, "no request came on the stream")
	}
}

// first reads up to the first request that asks for something. It runs on a stack of its own, which reading a node makes big.
func (x *session) first() first {
	var health *incoming
	for {
		in, err := x.next()
		switch {
		case err != nil:
			return first{err: err}
		case in.TypeURL == healthType:
			health = in
			continue
		case isDebug(in.TypeURL), x.s.handler(in.node) != nil:
			return first{incoming: in}
		}
		proxy, err := x.s.proxy(in.node)
		if err != nil {
			return first{err: status.Error(codes.InvalidArgument, err.Error())}
		}
		if x.s.admit != nil {
			if err := x.s.admit(proxy, x.introduction(in.node)); err != nil {
				return first{err: err}
			}
		}
		if x.link.TLS() != nil && len(x.identities) > 0 {
			proxy.Identity = x.identities[0]
		}
		if x.s.keys != nil {
			proxy.Keys = x.s.keys(proxy, x.introduction(in.node))
		}
		return first{incoming: in, proxy: proxy, health: health}
	}
}

// serve serves a proxy.
func (x *session) serve(proxy *mesh.Proxy, r stream.Request, opened func()) error {
	c := x.s.pusher.Connect(proxy, x.mode, x.link.peer)
	defer c.Close()
	c.Request(r)
	go x.receive(c)
	return x.send(c, opened)
}

// receive takes requests in until there are no more.
func (x *session) receive(c *push.Client) {
	for {
		in, err := x.next()
		switch {
		case err != nil:
			x.end(err)
			return
		case in.TypeURL == healthType:
			x.tellHealth(in)
		case isDebug(in.TypeURL):
			x.answerBetween(in)
		default:
			c.Request(in.Request)
		}
	}
}

// send writes responses until the stream ends, and says why it did. opened is called when the first is written.
func (x *session) send(c *push.Client, opened func()) error {
	for {
		out, err := c.Next(x.ctx)
		if err != nil {
			return err
		}
		size, took, err := x.respond(out)
		if err != nil {
			return err
		}
		c.Sent(out, size, took)
		opened()
	}
}

// respond composes and writes a response.
func (x *session) respond(out *stream.Send) (size int, took time.Duration, err error) {
	done, err := x.turn()
	if err != nil {
		return 0, 0, err
	}
	defer done()
	began := x.s.clock.Now()
	r := newResponse(out, x.mode, x.s.identifier, x.s.envelope())
	if err := x.write(r); err != nil {
		return 0, 0, err
	}
	return r.size, x.s.clock.Now().Sub(began), nil
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
