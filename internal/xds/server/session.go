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

	"github.com/meshpilot/meshpilot/internal/model/mesh"
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
	// cluster is the cluster whose API server vouches for them; "": none does.
	cluster string
	// pending is the stream's entry among those that may be dropped for newer ones, until its first
	// request has arrived.
	pending  *pendingEntry
	workload Workload // nil: it is of none that is registered

	asked   atomic.Bool   // the first request has arrived
	writing sync.Mutex    // one response at a time
	written chan struct{} // gets a token when gRPC has written the response
	busy    atomic.Bool   // a response is being written
}

func newSession(s *Server, st grpc.ServerStream, mode stream.Mode) *session {
	x := &session{s: s, st: st, mode: mode, link: linkOf(st.Context()), written: make(chan struct{}, 1)}
	x.ctx, x.end = context.WithCancelCause(st.Context())
	return x
}

// first is the first request that asks for something, and the proxy that it comes from, nil if the
// client is none.
type first struct {
	*incoming
	proxy *mesh.Proxy
	// health is the newest message about it that came before, nil if none did.
	health *incoming
	// leave releases the place that the request was decoded under. It is never nil.
	leave func()
	err   error
}

// authenticate finds out who has opened the stream.
func (x *session) authenticate() (err error) {
	if x.s.authenticate == nil {
		x.identities = x.link.identities()
		return nil
	}
	x.identities, x.cluster, err = x.s.authenticate(x.ctx)
	return err
}

// admission returns that of the stream's port.
func (x *session) admission() *admission {
	if !x.link.secure() {
		return x.s.plaintext
	}
	return x.s.secure
}

// smallRequest returns up to what size a request needs no authentication, maxRequest what size it
// may have.
func (x *session) smallRequest() int {
	if x.link.port == nil {
		return defaultSmallRequest
	}
	return x.link.port.limits.SmallRequest
}

func (x *session) maxRequest() int {
	if len(x.identities) > 0 {
		return max(maxRequestBytes, x.smallRequest())
	}
	return x.smallRequest()
}

// enqueue makes the stream one that newer ones may displace, until its first request has arrived.
func (x *session) enqueue() {
	if x.link.port != nil {
		x.pending = x.link.port.calls.add(x.link.source, func() { x.end(errDisplaced) })
	}
}

// arrived notes that the first request is there: the client is not waited for, and not displaced,
// any more.
func (x *session) arrived() {
	x.asked.Store(true)
	x.pending.remove()
	x.link.admit()
}

// run serves the stream.
func (x *session) run() error {
	x.enqueue()
	defer x.pending.remove()
	if err := x.authenticate(); err != nil {
		return x.status(err)
	}
	if len(x.identities) > 0 {
		x.link.admit()
	}
	in, err := x.open()
	if err != nil {
		return x.status(err)
	}
	leave := in.leave
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
	a := x.admission()
	opened, err := a.enter(x.ctx, a.opening, openingLimit)
	if err != nil {
		return x.status(err)
	}
	defer opened()
	return x.status(x.serve(in.proxy, in.Request, opened))
}

// open waits for the first request. While none has come the stream has no place of the admission,
// so silent clients do not keep others out.
func (x *session) open() (first, error) {
	c := make(chan first, 1)
	go func() {
		in := first{err: errInternal, leave: func() {}}
		defer func() { c <- in }()
		defer x.recoverStream("read the first request")
		in = x.first()
	}()
	for overdue := x.s.clock.After(x.firstRequestLimit()); ; {
		select {
		case in := <-c:
			if in.err != nil {
				in.leave()
			}
			return in, in.err
		case <-x.ctx.Done():
			return first{}, context.Cause(x.ctx)
		case <-overdue:
			if !x.asked.Swap(false) {
				return first{}, status.Error(codes.DeadlineExceeded, "no request came on the stream")
			}
			overdue = x.s.clock.After(2 * maxWait) // it waits for the rate and for a place, or has sent its health alone
		}
	}
}

// firstRequestLimit returns how long a stream may last without a request.
func (x *session) firstRequestLimit() time.Duration {
	if x.link.port == nil {
		return x.s.sendTimeout
	}
	return min(x.s.sendTimeout, x.link.port.limits.FirstRequest)
}

// first reads up to the first request that asks for something. It runs on a stack of its own, which
// reading a node makes large.
func (x *session) first() first {
	var health *incoming
	for {
		in, leave, err := x.receiveRequest(0)
		switch {
		case err != nil:
			return first{err: err, leave: leave}
		case in.TypeURL == healthType:
			leave()
			in.node, in.raw = nil, ""
			health = in
			continue
		case isDebug(in.TypeURL), x.s.handler(in.node) != nil:
			return first{incoming: in, leave: leave}
		}
		proxy, err := x.introduce(in)
		return first{incoming: in, proxy: proxy, health: health, leave: leave, err: err}
	}
}

// introduce returns the proxy that the node of a request describes. The error is a gRPC status.
func (x *session) introduce(in *incoming) (*mesh.Proxy, error) {
	proxy, err := x.s.proxy(in.node)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := x.awaitPanics(proxy); err != nil {
		return nil, err
	}
	if x.s.admit != nil {
		if err := x.s.admit(proxy, x.introduction(in.node)); err != nil {
			return nil, err
		}
	}
	if x.link.TLS() != nil && len(x.identities) > 0 {
		proxy.Identity = x.identities[0]
	}
	if x.s.keys != nil {
		proxy.Keys = x.s.keys(proxy, x.introduction(in.node))
	}
	return proxy, nil
}

// serve serves a proxy.
func (x *session) serve(proxy *mesh.Proxy, r stream.Request, opened func()) (err error) {
	defer func() { err = x.panicked(proxy, err) }()
	defer x.recoverStream("send")
	c := x.s.pusher.Connect(proxy, x.mode, x.link.peer)
	defer c.Close()
	c.Request(r)
	go x.receive(c)
	return x.send(c, opened)
}

// receive takes requests in until there are no more.
func (x *session) receive(c *push.Client) {
	defer x.recoverStream("take requests in")
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

// send writes responses until the stream ends, and says why it did. opened is called when the first
// is written.
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
	case errors.As(err, &broken) && broken.Limit:
		return status.Error(codes.ResourceExhausted, broken.Reason)
	case errors.As(err, &broken):
		return status.Error(codes.InvalidArgument, broken.Reason)
	case errors.Is(err, context.Canceled):
		return status.FromContextError(context.Canceled).Err()
	default:
		return err
	}
}
