package feed

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// session is the state of one stream. The goroutine of run owns it. A second goroutine reads
// requests, and a third one writes while there is a response to write. So requests are read even
// while a response cannot be written.
type session struct {
	f         *Feed
	log       *slog.Logger
	wire      wire
	machine   *stream.Machine
	resources *stream.ResourceSnapshot

	requests chan stream.Request
	ended    chan error    // receives the error that ended reading
	over     chan struct{} // closed at the end
	written  chan error

	queue   []outgoing // responses to write; while writing, the first one is being written
	writing bool
	broken  error // if set, the stream ends with this error
}

// outgoing is a response to write, made by the machine or by the session itself.
type outgoing struct {
	send *stream.Send
	// foreign marks an empty response for a type that is not served. The machine does not know of
	// it.
	foreign bool
}

// overdue is the interval at which the machine receives stream.Tick, its event for elapsed time.
const overdue = time.Second

// run serves the session until receiving or writing fails, the client breaks the protocol, or ctx
// ends. It returns that reason, never nil. It applies requests, new resources and a Tick every
// overdue period to the machine, and writes one response at a time. It reads requests in a
// goroutine, which ends after x.over is closed at the end.
func (x *session) run(ctx context.Context) error {
	defer close(x.over)
	go func() {
		if err := x.f.recovery.Call(
			"xds",
			func() error { x.readRequests(); return nil },
			"doing",
			"read a config client",
		); err != nil {
			x.ended <- err
		}
	}()
	tick := x.f.clock.After(overdue)
	for {
		resources, changed := x.f.currentResources()
		if resources != x.resources {
			x.resources = resources
			x.applyEvent(stream.Ready{Resources: resources})
		}
		if x.broken != nil {
			return x.broken
		}
		x.writeNext()
		select {
		case r := <-x.requests:
			x.applyEvent(r)
		case err := <-x.ended:
			return err
		case err := <-x.written:
			if err != nil {
				return err
			}
			x.completeWrite()
		case <-changed:
		case <-tick:
			tick = x.f.clock.After(overdue)
			x.applyEvent(stream.Tick{})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readRequests receives requests, records their sizes in metrics, and passes them to run. If
// receiving fails, it sends the error to x.ended and returns; it also returns when the session is
// over.
func (x *session) readRequests() {
	for {
		r, size, err := x.wire.receive()
		if err != nil {
			x.ended <- err
			return
		}
		x.f.metrics.Received(size)
		select {
		case x.requests <- r:
		case <-x.over:
			return
		}
	}
}

// writeNext starts to write the first response of the queue in a goroutine. That sends the error of
// writing, or nil, to x.written; a response that was written is first recorded in metrics. The
// response stays in the queue until completeWrite. It does nothing if a write is in progress or the
// queue is empty.
func (x *session) writeNext() {
	if x.writing || len(x.queue) == 0 {
		return
	}
	x.writing = true
	next := x.queue[0].send
	go func() {
		began := x.f.clock.Now()
		var size int
		err := x.f.recovery.Call(
			"xds",
			func() (err error) { size, err = x.wire.send(next); return err },
			"doing",
			"write to a config client",
		)
		if err == nil {
			x.f.metrics.Sent(next.TypeURL, next.Resources(), size, x.f.clock.Now().Sub(began))
		}
		x.written <- err
	}()
}

// completeWrite removes the first response, which was written, from the queue, logs it and permits
// the next write. It then reports Sent to the machine, unless the response is foreign: such a
// response is not the machine's.
func (x *session) completeWrite() {
	done := x.queue[0]
	x.queue, x.writing = x.queue[1:], false
	x.log.Debug("config sent", "type", done.send.TypeURL, "resources", done.send.Resources(),
		"removed", len(done.send.Removed))
	if !done.foreign {
		x.applyEvent(stream.Sent{})
	}
}

// applyEvent applies an event to the machine and carries out the resulting actions: it enqueues
// responses and logs rejections. A request of an unknown type is answered with an empty response. A
// violation of the protocol sets x.broken, at which run ends the stream.
func (x *session) applyEvent(e stream.Event) {
	for _, a := range x.machine.Step(e) {
		switch a := a.(type) {
		case stream.Send:
			x.queue = append(x.queue, outgoing{send: &a})
		case stream.Nack:
			x.log.Warn("client rejected configuration", "type", a.TypeURL, "error", a.Message)
		case stream.Unknown:
			// Istio's clients wait for a response for every type. The response for this type is
			// empty.
			x.queue = append(x.queue, outgoing{send: &stream.Send{TypeURL: a.TypeURL, Nonce: "none"}, foreign: true})
		case stream.EndStream:
			x.broken = status.Error(codes.InvalidArgument, a.Reason)
		}
	}
}
