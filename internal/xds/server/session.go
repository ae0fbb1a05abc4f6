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

	"github.com/meshpilot/meshpilot/internal/base/notify"
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
	nodeID   string   // of the proxy; "" until its first request has arrived

	asked   atomic.Bool // a request has arrived
	writing sync.Mutex  // one response at a time
	written notify.Wake // receives a token when gRPC has written the response
	busy    atomic.Bool // a response is being written
}

// newSession returns the session of a stream. Its context ends with the stream's, or by x.end.
func newSession(s *Server, st grpc.ServerStream, mode stream.Mode) *session {
	x := &session{s: s, st: st, mode: mode, link: linkOf(st.Context()), written: notify.NewWake()}
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

// authenticate sets the identities and the cluster of the stream's client. Without
// Options.Authenticate the identities are the URIs of the verified client certificate. The error is
// a gRPC status.
func (x *session) authenticate() (err error) {
	if x.s.authenticate == nil {
		x.identities = x.link.identities()
		return nil
	}
	x.identities, x.cluster, err = x.s.authenticate(x.ctx)
	return err
}

// admissionFor returns the admission for plain text or TLS, depending on the connection.
func (x *session) admissionFor() *admission {
	if !x.link.usesTLS() {
		return x.s.plaintext
	}
	return x.s.secure
}

// smallRequest returns the size in bytes up to which a request needs no authentication.
func (x *session) smallRequest() int {
	if x.link.port == nil {
		return defaultSmallRequest
	}
	return x.link.port.limits.SmallRequest
}

// maxRequest returns the largest size in bytes that a request of this client may have. That is
// smallRequest without identities, otherwise Request of the port's Limits, or defaultRequest
// without a port.
func (x *session) maxRequest() int {
	switch {
	case len(x.identities) == 0:
		return x.smallRequest()
	case x.link.port == nil:
		return defaultRequest
	default:
		return x.link.port.limits.Request
	}
}

// addPending adds the stream to the calls that newer ones may displace until its first request has
// arrived. It does nothing on a connection without a port.
func (x *session) addPending() {
	if x.link.port != nil {
		x.pending = x.link.port.calls.add(x.link.source, func() { x.end(errDisplaced) })
	}
}

// markArrived records that a request has arrived. From now on neither the stream nor its connection
// is displaced by newer ones.
func (x *session) markArrived() {
	x.asked.Store(true)
	x.pending.remove()
	x.link.markAdmitted()
}

// run serves the stream and returns its gRPC status. It authenticates the client and waits for the
// first request. That determines whether it serves debug requests, hands the stream to a Handler,
// or registers the workload and serves a proxy. A proxy that reports no versions, or has a
// registered workload, first waits for an opening place.
func (x *session) run() error {
	x.addPending()
	defer x.pending.remove()
	if err := x.authenticate(); err != nil {
		return x.streamStatus(err)
	}
	if len(x.identities) > 0 {
		x.link.markAdmitted()
	}
	in, err := x.awaitFirst()
	if err != nil {
		return x.streamStatus(err)
	}
	leave := in.leave
	defer leave()
	switch {
	case isDebug(in.TypeURL):
		return x.streamStatus(x.answerAll(in.incoming, leave))
	case in.proxy == nil:
		leave()
		return x.streamStatus(x.handOver(x.s.handlerFor(in.node), in.incoming))
	}
	in.node, in.raw = nil, "" // the rest is small, unless the proxy has state
	x.nodeID = in.proxy.ID
	unregister, err := x.registerWorkload(in, leave)
	if err != nil {
		return x.streamStatus(err)
	}
	defer unregister()
	if in.Held.Len() > 0 && x.workload == nil {
		return x.streamStatus(x.serveProxy(in.proxy, in.Request, leave))
	}
	leave()
	a := x.admissionFor()
	opened, err := a.acquirePlace(x.ctx, a.opening, openingLimit)
	if err != nil {
		return x.streamStatus(err)
	}
	defer opened()
	return x.streamStatus(x.serveProxy(in.proxy, in.Request, opened))
}

// awaitFirst waits for the first request that is not about a workload's health, which a goroutine
// reads (readFirst). It returns DeadlineExceeded if none arrives in time; a request that has
// arrived may wait longer for its admission. If the stream ends, it returns the cause. Until then
// the stream holds no place of the admission, so silent clients do not block others. On an error no
// place is held, and leave need not be called.
func (x *session) awaitFirst() (first, error) {
	c := make(chan first, 1)
	go func() {
		in := first{err: errInternal, leave: func() {}}
		defer func() { c <- in }()
		defer x.recoverStream("read the first request")
		in = x.readFirst()
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
				return first{}, status.Error(codes.DeadlineExceeded, "the first request did not arrive in time")
			}
			overdue = x.s.clock.After(
				2 * maxWait,
			) // the request waits for the rate and a place, or only health was sent
		}
	}
}

// firstRequestLimit returns how long a stream may last before its first request has arrived:
// SendTimeout, or FirstRequest of the port's Limits if that is shorter.
func (x *session) firstRequestLimit() time.Duration {
	if x.link.port == nil {
		return x.s.sendTimeout
	}
	return min(x.s.sendTimeout, x.link.port.limits.FirstRequest)
}

// readFirst reads requests until one is not health, and returns it with its proxy, or without for a
// debug request or a Handler. The result's health is the last health request before it, or nil; its
// err is set if reading fails or the proxy is refused. It runs in a goroutine of its own, because
// decoding a node grows the stack.
func (x *session) readFirst() first {
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
		case isDebug(in.TypeURL), x.s.handlerFor(in.node) != nil:
			return first{incoming: in, leave: leave}
		}
		proxy, err := x.admitProxy(in)
		return first{incoming: in, proxy: proxy, health: health, leave: leave, err: err}
	}
}

// admitProxy returns the proxy that the node of a request describes. On a connection with TLS, its
// Identity is the one that Options.Admit has set, or else the first authenticated identity of the
// client; Keys is as Options.Keys decides. It refuses an invalid node (InvalidArgument), a proxy
// that must wait after panics, and a proxy that Options.Admit rejects. The error is a gRPC status.
func (x *session) admitProxy(in *incoming) (*mesh.Proxy, error) {
	proxy, err := x.s.parseNode(in.node, in.extensions)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := x.awaitPanics(proxy); err != nil {
		return nil, err
	}
	if x.s.admit != nil {
		if err := x.s.admit(proxy, x.describeClient(in.node)); err != nil {
			return nil, err
		}
	}
	if x.link.TLS() != nil && len(x.identities) > 0 && proxy.Identity == "" {
		proxy.Identity = x.identities[0]
	}
	if x.s.keys != nil {
		proxy.Keys = x.s.keys(proxy, x.describeClient(in.node))
	}
	return proxy, nil
}

// serveProxy connects a proxy to the Pusher, applies its first request r and serves it until the
// stream ends; a goroutine reads further requests. It returns the reason, errInternal after a
// panic. opened is called after each response was written. On a SotW stream it clears OnDemand of
// the proxy's metadata, with a warning in the log.
func (x *session) serveProxy(proxy *mesh.Proxy, r stream.Request, opened func()) (err error) {
	defer func() { err = x.panicError(proxy, err) }()
	defer x.recoverStream("send")
	if proxy.Metadata.OnDemand && x.mode != stream.Delta {
		proxy.Metadata.OnDemand = false
		x.s.log.Warn("ADS: MESHPILOT_ON_DEMAND ignored: it needs delta xDS", "node", proxy.ID)
	}
	c := x.s.pusher.Connect(proxy, x.mode, x.link.peer)
	defer c.Close()
	c.Request(r)
	go x.receiveRequests(c)
	return x.sendResponses(c, opened)
}

// receiveRequests reads requests until the stream ends, whose error it passes to x.end. It applies
// health reports to the workload, answers debug requests, and passes all others to c. A panic ends
// the session too.
func (x *session) receiveRequests(c *push.Client) {
	defer x.recoverStream("take requests in")
	for {
		in, err := x.nextRequest()
		switch {
		case err != nil:
			x.end(err)
			return
		case in.TypeURL == healthType:
			x.reportHealth(in)
		case isDebug(in.TypeURL):
			x.answerOnProxyStream(in)
		default:
			c.Request(in.Request)
		}
	}
}

// sendResponses writes the responses of c, and reports each to c.Sent, until the stream ends or a
// write fails, and returns the reason. opened, which releases a place of the admission, is called
// after each response was written.
func (x *session) sendResponses(c *push.Client, opened func()) error {
	for {
		out, err := c.Next(x.ctx)
		if err != nil {
			return err
		}
		size, took, err := x.writeResponse(out)
		if err != nil {
			return err
		}
		c.Sent(out, size, took)
		opened()
	}
}

// writeResponse composes and writes a response. It returns its size in bytes and the time that this
// took, without the wait for a writer. It returns the error of the context, the error of writing,
// or DeadlineExceeded.
func (x *session) writeResponse(out *stream.Send) (size int, took time.Duration, err error) {
	done, err := x.acquireWriter()
	if err != nil {
		return 0, 0, err
	}
	defer done()
	began := x.s.clock.Now()
	r := newResponse(out, x.mode, x.s.identifier, x.s.newEnvelope())
	if err := x.writeEncoded(r); err != nil {
		return 0, 0, err
	}
	return r.size, x.s.clock.Now().Sub(began), nil
}

// streamStatus returns the gRPC status with which a stream ends for err, nil if the client has
// closed the stream (io.EOF). Protocol errors are InvalidArgument, exceeded limits
// ResourceExhausted. A canceled stream has the status of its cause, or Canceled if there is no
// other. Other errors are returned as they are.
func (x *session) streamStatus(err error) error {
	var broken push.ProtocolError
	switch {
	case errors.Is(err, context.Canceled) && context.Cause(x.ctx) != nil &&
		!errors.Is(context.Cause(x.ctx), context.Canceled):
		return x.streamStatus(context.Cause(x.ctx))
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
