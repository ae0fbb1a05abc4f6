package xds

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// variant is the difference between the two variants of the protocol.
type variant interface {
	// method returns the full name of the gRPC method.
	method() string
	// incremental reports whether responses contain only changes.
	incremental() bool
	// open returns the first request for a type on a stream. node is nil except for the first
	// request.
	open(c *collection, node *corev3.Node) proto.Message
	// acknowledge returns the request that acknowledges a response.
	acknowledge(r response) proto.Message
}

// link is one stream. One goroutine reads and one writes, and both communicate with the goroutine
// that owns the run. A writer that waits for the server must not block reading.
type link struct {
	stream   grpc.ClientStream
	frames   chan *frame
	ended    chan error         // receives the error that ended reading
	requests chan proto.Message // acknowledgements
	closing  chan struct{}      // closed when nothing is written any longer
}

// serveStream serves one stream until it ends, and reports whether the server sent a response. The
// error, which is never nil, is the reason of the end.
func (r *run) serveStream(ctx context.Context, conn *grpc.ClientConn, v variant) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	defer cancel()
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, v.method())
	if err != nil {
		return false, err
	}
	l := &link{
		stream:   st,
		frames:   make(chan *frame),
		ended:    make(chan error, 1),
		requests: make(chan proto.Message, 64),
		closing:  make(chan struct{}),
	}
	first := make([]proto.Message, len(r.collections))
	node := r.o.Node.Description()
	for i, c := range r.collections {
		first[i], node = v.open(c, node), nil
	}
	goroutines.Go(func() { l.write(ctx, first) })
	goroutines.Go(func() { l.read(ctx) })
	return r.applyResponses(ctx, l, v)
}

// applyResponses applies responses and acknowledges them until the stream or ctx ends, or a
// response cannot be parsed. It returns that reason, and whether the server sent any response
// before. A response resolves the Problem of the connection. Types that the server has not answered
// within Options.Patience, before Synced, are reported as a Problem until they are.
func (r *run) applyResponses(ctx context.Context, l *link, v variant) (answered bool, err error) {
	var patience <-chan time.Time
	silent := false
	if !r.synced {
		patience = r.o.Clock.After(r.o.Patience)
	}
	for {
		select {
		case <-ctx.Done():
			return answered, ctx.Err()
		case err := <-l.ended:
			return answered, err
		case <-patience:
			silent = true
			r.setProblem(ctx, r.missingTypes())
		case f := <-l.frames:
			response, err := r.applyResponse(ctx, v, f.bytes())
			f.buffer.Free()
			if err != nil {
				return answered, err
			}
			if !answered {
				r.o.Logger.Info("connected to the config source", "source", r.Name(), "delta", v.incremental())
				answered = true
			}
			if silent {
				r.setProblem(ctx, r.missingTypes())
			} else {
				r.setProblem(ctx, "")
			}
			select {
			case l.requests <- v.acknowledge(response):
			case <-l.closing: // reading will return the error
			case <-ctx.Done():
			}
		}
	}
}

// read passes messages to l.frames until the stream or ctx ends, and then sends the reason to
// l.ended.
func (l *link) read(ctx context.Context) {
	for {
		f := new(frame)
		if err := l.stream.RecvMsg(f); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server ended the stream")
			}
			l.ended <- err
			return
		}
		select {
		case l.frames <- f:
		case <-ctx.Done():
			f.buffer.Free()
			l.ended <- ctx.Err()
			return
		}
	}
}

// write sends the first requests, and then the acknowledgements in l.requests, until ctx ends or
// sending fails; read reports the failure. It closes l.closing when it returns.
func (l *link) write(ctx context.Context, first []proto.Message) {
	defer close(l.closing)
	for _, m := range first {
		if l.stream.SendMsg(m) != nil {
			return
		}
	}
	for {
		select {
		case m := <-l.requests:
			if l.stream.SendMsg(m) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
