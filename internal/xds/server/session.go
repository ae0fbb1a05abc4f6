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

// session is one stream of a client.
type session struct {
	s    *Server
	st   grpc.ServerStream
	mode stream.Mode
	link *link
	ctx  context.Context         // ends with the stream; its cause is the status
	end  context.CancelCauseFunc // ends the stream
	// identities are the authenticated identities of the client.
	identities []string
	// cluster is the cluster whose API server authenticated them; "" if none did.
	cluster string
	// pending is the stream's entry in the set of calls that newer ones may displace. It is removed
	// when the first request has arrived.
	pending  *pendingEntry
	workload Workload // nil unless the proxy belongs to a registered workload

	asked   atomic.Bool   // a request has arrived
	writing sync.Mutex    // one response at a time
	written chan struct{} // receives a token when gRPC has written the response
	busy    atomic.Bool   // a response is being written
}

func newSession(s *Server, st grpc.ServerStream, mode stream.Mode) *session {
	x := &session{s: s, st: st, mode: mode, link: linkOf(st.Context()), written: make(chan struct{}, 1)}
	x.ctx, x.end = context.WithCancelCause(st.Context())
	return x
}

// first is the first request of a stream other than health, and its proxy, which is nil if the
// client is not a proxy.
type first struct {
	*incoming
	proxy *mesh.Proxy
	// health is the newest message about the workload's health that came before; nil if there was
	// none.
	health *incoming
	// leave releases the place in which the request was decoded. It is never nil.
	leave func()
	err   error
}

// authenticate sets the identities and the cluster of the stream's client. The error is a gRPC
// status.
func (x *session) authenticate() (err error) {
	if x.s.authenticate == nil {
		x.identities = x.link.identities()
		return nil
	}
	x.identities, x.cluster, err = x.s.authenticate(x.ctx)
	return err
}

// admission returns the admission for plain text or TLS, depending on the connection.
func (x *session) admission() *admission {
	if !x.link.secure() {
		return x.s.plaintext
	}
	return x.s.secure
}

// smallRequest returns the size up to which a request needs no authentication. maxRequest returns
// the maximum size of a request.
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

// enqueue adds the stream to the calls that newer ones may displace, until its first request has
// arrived.
func (x *session) enqueue() {
	if x.link.port != nil {
		x.pending = x.link.port.calls.add(x.link.source, func() { x.end(errDisplaced) })
	}
}

// arrived records that a request has arrived. From now on neither the stream nor its connection is
// displaced by newer ones.
func (x *session) arrived() {
	x.asked.Store(true)
	x.pending.remove()
	x.link.admit()
}

// run serves the stream and returns its gRPC status. It authenticates the client, waits for the
// first request, and then serves a debug client, a Handler's client or a proxy.
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
	in.node, in.raw = nil, "" // the rest is small, unless the proxy has state
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

// open waits for the first request. It returns DeadlineExceeded if none arrives in time. Before the
// request arrives, the stream has no place of the admission, so silent clients do not block others.
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
			overdue = x.s.clock.After(2 * maxWait) // the request waits for the rate and a place, or only health was sent
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

// first reads requests and returns the first request whose type is not health. It runs in a
// goroutine of its own, because decoding a node grows the stack.
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

// introduce returns the proxy that the node of a request describes. It refuses an invalid node, a
// proxy that must wait after panics, and a proxy that Options.Admit rejects. The error is a gRPC
// status.
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

// serve connects a proxy to the Pusher and serves it until the stream ends. A panic ends the stream
// with errInternal.
func (x *session) serve(proxy *mesh.Proxy, r stream.Request, opened func()) (err error) {
	defer func() { err = x.panicked(proxy, err) }()
	defer x.recoverStream("send")
	c := x.s.pusher.Connect(proxy, x.mode, x.link.peer)
	defer c.Close()
	c.Request(r)
	go x.receive(c)
	return x.send(c, opened)
}

// receive reads and processes requests until the stream ends.
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

// send writes responses until the stream ends, and returns the reason. opened is called after each
// response was written.
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

// respond composes and writes a response. It returns its size in bytes and the time that this took,
// excluding the wait for a writer.
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

// status returns the gRPC status with which a stream ends. It is nil if the client has closed the
// stream.
func (x *session) status(err error) error {
	var broken push.ProtocolError
	switch {
	case errors.Is(err, context.Canceled) && context.Cause(x.ctx) != nil && !errors.Is(context.Cause(x.ctx), context.Canceled):
		return x.status(context.Cause(x.ctx))
	case errors.Is(err, io.EOF): // the client has closed its side
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
