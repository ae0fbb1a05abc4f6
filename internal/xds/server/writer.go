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

// A response has left gRPC when gRPC frees its last buffer: it does so with each buffer when the
// bytes are on their way to the socket. So that buffer is one that the session hears of, and there
// is never more than one response in gRPC's hands. Therefore SendMsg, which blocks only while gRPC
// holds more than 64 KB of a stream, never does, and neither a goroutine nor a copy is needed to
// give a slow reader up.

// tracked is the least capacity that a buffer needs to be freed by gRPC at all.
const tracked = 1<<10 + 1

// maxPooled is the capacity of envelopes that are not used again.
const maxPooled = 8 << 10

// Get is for gRPC, which never calls it.
func (x *session) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put is called by gRPC with the last buffer of a response, when it needs it no more.
func (x *session) Put(b *[]byte) {
	if cap(*b) <= maxPooled {
		x.s.envelopes.Put(b)
	}
	select {
	case x.written <- struct{}{}:
	default: // the stream is over, and nobody waits
	}
}

var _ mem.BufferPool = (*session)(nil)

// envelope gives an empty buffer for the last part of a response.
func (s *Server) envelope() *[]byte {
	if b, ok := s.envelopes.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, tracked)
	return &b
}

const (
	// slowest is the rate in bytes per second that a proxy must at least read at for its stream to
	// last.
	slowest = 4 << 10
	// maxSendTime is how long a response may take to write in any case.
	maxSendTime = 3 * time.Minute
)

// patience is how long a writer that is bounded by Options.Writers keeps its place: whoever takes
// longer reads slowly, and costs nothing while it is waited for.
const patience = 20 * time.Millisecond

// write writes a response. A proxy that does not read is given up after sendTimeout, one that reads
// after maxSendTime: it connects again if it is alive, and is found by keepalive if it is not.
func (x *session) write(r *response) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.busy.Store(true)
	defer x.busy.Store(false)
	r.buffers = append(r.buffers, mem.NewBuffer(r.envelope, x))
	if err := x.st.SendMsg(r); err != nil {
		return err
	}
	end, enough := x.s.clock.After(x.s.maxSendTime), int64(x.s.sendTimeout.Seconds()*slowest)
	for read := x.link.written.Load(); ; {
		select {
		case <-x.written:
			return nil
		case <-x.ctx.Done():
			return x.ctx.Err()
		case <-end:
			return x.blocked(r, x.s.maxSendTime)
		case <-x.s.clock.After(x.s.sendTimeout):
			now := x.link.written.Load()
			if now-read < enough {
				return x.blocked(r, x.s.sendTimeout)
			}
			read = now
		}
	}
}

func (x *session) blocked(r *response, limit time.Duration) error {
	x.s.metrics.WriteTimeout()
	return status.Errorf(codes.DeadlineExceeded,
		"a response of %d bytes could not be written: the proxy has not read it within %v", r.size, limit)
}

// turn waits until the session may compose and write a response, if there is a bound on how many
// do. done must be called.
func (x *session) turn() (done func(), err error) {
	if x.s.writers == nil {
		return func() {}, nil
	}
	return hold(x.ctx, x.s.writers, patience)
}

// writeMessage writes a message that is not encoded yet.
func (x *session) writeMessage(m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, max(tracked, proto.Size(m))), m)
	if err != nil {
		return status.Errorf(codes.Internal, "encoding a response: %v", err)
	}
	return x.write(&response{envelope: &b, size: len(b)})
}

// hold takes a place of a semaphore, in the order of asking. leave gives it back, and may be called
// more than once; it is called by itself when the place was kept for longer than the limit. The
// error is the context's.
func hold(ctx context.Context, places *semaphore.Weighted, limit time.Duration) (leave func(), err error) {
	if err := places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	back := sync.OnceFunc(func() { places.Release(1) })
	timer := time.AfterFunc(limit, back)
	return func() { timer.Stop(); back() }, nil
}
