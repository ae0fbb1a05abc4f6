package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// gRPC frees each buffer of a response when its bytes are on their way to the socket. The session
// is the pool of a response's last buffer, so it learns when the response has left gRPC. There is
// never more than one response of a stream in gRPC. Therefore SendMsg never blocks: it would block
// only while gRPC holds more than 64 KB of a stream. So ending the stream of a slow reader needs
// neither a goroutine nor a copy.

// tracked is the minimum capacity of a buffer that gRPC frees at all.
const tracked = 1<<10 + 1

// maxPooled is the maximum capacity of envelopes that are reused.
const maxPooled = 8 << 10

// Get implements mem.BufferPool. gRPC never calls it.
func (x *session) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put is called by gRPC when it no longer needs the last buffer of a response. It returns the
// envelope to the pool unless its capacity exceeds maxPooled, and signals that the response was
// written.
func (x *session) Put(b *[]byte) {
	if cap(*b) <= maxPooled {
		x.s.envelopes.Put(b)
	}
	x.written.Notify()
}

var _ mem.BufferPool = (*session)(nil)

// newEnvelope returns an empty buffer from the pool, or a new one, for the fields of a response
// that are not resources.
func (s *Server) newEnvelope() *[]byte {
	if b, ok := s.envelopes.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, tracked)
	return &b
}

const (
	// slowest is the minimum rate in bytes per second at which a proxy must read to keep its
	// stream.
	slowest = 4 << 10
	// maxSendTime bounds how long a response may take to write in any case.
	maxSendTime = 3 * time.Minute
)

// patience is how long a writer keeps its place if Options.Writers is set. A writer that takes
// longer has a slow reader, and waiting for it costs nothing.
const patience = 20 * time.Millisecond

// writeEncoded writes a response and waits until the proxy has read it; other writes of the session
// wait. It returns DeadlineExceeded, and counts a write timeout, if the proxy reads too slowly
// during sendTimeout or has not read everything after maxSendTime. A live proxy then reconnects;
// keepalive detects a dead one. Otherwise the error is SendMsg's or the context's.
func (x *session) writeEncoded(r *response) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.busy.Store(true)
	defer x.busy.Store(false)
	r.buffers = append(r.buffers, mem.NewBuffer(r.envelope, x))
	if err := x.st.SendMsg(r); err != nil {
		return err
	}
	end, enough := x.s.clock.Now().Add(x.s.maxSendTime), int64(x.s.sendTimeout.Seconds()*slowest)
	for read := x.link.written.Load(); ; {
		left := end.Sub(x.s.clock.Now())
		select {
		case <-x.written.C():
			return nil
		case <-x.ctx.Done():
			return x.ctx.Err()
		case <-x.s.clock.After(min(left, x.s.sendTimeout)):
			if left <= x.s.sendTimeout {
				return x.timeoutError(r, x.s.maxSendTime)
			}
			now := x.link.written.Load()
			if now-read < enough {
				return x.timeoutError(r, x.s.sendTimeout)
			}
			read = now
		}
	}
}

// timeoutError counts a write timeout and returns it as DeadlineExceeded.
func (x *session) timeoutError(r *response, limit time.Duration) error {
	x.s.metrics.WriteTimeout()
	return status.Errorf(codes.DeadlineExceeded,
		"a response of %d bytes could not be written: the proxy has not read it within %v", r.size, limit)
}

// acquireWriter waits until the session may compose and write a response. done releases the writer,
// which is also released after patience. If Options.Writers is not set, it returns at once. The
// error is the context's, and done is then nil.
func (x *session) acquireWriter() (done func(), err error) {
	if x.s.writers == nil {
		return func() {}, nil
	}
	return acquireFor(x.ctx, x.s.writers, patience)
}

// writeMessage encodes and writes a message, as writeEncoded does. It returns an Internal status if
// it cannot be encoded.
func (x *session) writeMessage(m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, max(tracked, proto.Size(m))), m)
	if err != nil {
		return status.Errorf(codes.Internal, "encoding a response: %v", err)
	}
	return x.writeEncoded(&response{envelope: &b, size: len(b)})
}

// acquireFor acquires a place of a semaphore, in the order of the calls. leave releases it and may
// be called more than once; the place is released after limit in any case. The error is ctx's, and
// leave is then nil.
func acquireFor(ctx context.Context, places *semaphore.Weighted, limit time.Duration) (leave func(), err error) {
	if err := places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	back := sync.OnceFunc(func() { places.Release(1) })
	timer := time.AfterFunc(limit, back)
	return func() { timer.Stop(); back() }, nil
}
