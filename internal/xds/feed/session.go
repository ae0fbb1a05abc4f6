package feed

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// session is one stream being served. The goroutine of run owns it; one reads, and one writes while there is something to write,
// so that requests are read also while a response cannot be written.
type session struct {
	f       *Feed
	log     *slog.Logger
	wire    wire
	machine *stream.Machine
	world   *stream.World

	requests chan stream.Request
	ended    chan error    // gets the error that ended the reading
	over     chan struct{} // closed at the end
	written  chan error

	queue   []outgoing // what is to be written
	writing bool
	broken  error // ends the stream
}

// outgoing is a response, of the machine or not.
type outgoing struct {
	send *stream.Send
	// foreign responses are empty ones for types that are not served.
	foreign bool
}

// overdue is how often the machine is told that time passes.
const overdue = time.Second

func (x *session) run(ctx context.Context) error {
	defer close(x.over)
	go func() {
		if err := x.f.recovery.Call("xds", func() error { x.read(); return nil }, "doing", "read a config client"); err != nil {
			x.ended <- err
		}
	}()
	tick := x.f.clock.After(overdue)
	for {
		world, changed := x.f.world()
		if world != x.world {
			x.world = world
			x.step(stream.Ready{World: world})
		}
		if x.broken != nil {
			return x.broken
		}
		x.write()
		select {
		case r := <-x.requests:
			x.step(r)
		case err := <-x.ended:
			return err
		case err := <-x.written:
			if err != nil {
				return err
			}
			x.sent()
		case <-changed:
		case <-tick:
			tick = x.f.clock.After(overdue)
			x.step(stream.Overdue{})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads requests until there are no more.
func (x *session) read() {
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

// write writes the next response, unless one is being written.
func (x *session) write() {
	if x.writing || len(x.queue) == 0 {
		return
	}
	x.writing = true
	next := x.queue[0].send
	go func() {
		began := x.f.clock.Now()
		var size int
		err := x.f.recovery.Call("xds", func() (err error) { size, err = x.wire.send(next); return err }, "doing", "write to a config client")
		if err == nil {
			x.f.metrics.Sent(next.TypeURL, next.Resources(), size, x.f.clock.Now().Sub(began))
		}
		x.written <- err
	}()
}

// sent takes note that the first of the queue was written.
func (x *session) sent() {
	done := x.queue[0]
	x.queue, x.writing = x.queue[1:], false
	x.log.Debug("config sent", "type", done.send.TypeURL, "resources", done.send.Resources(), "removed", len(done.send.Removed))
	if !done.foreign {
		x.step(stream.Sent{})
	}
}

// step hands an event to the machine and does what it says.
func (x *session) step(e stream.Event) {
	for _, a := range x.machine.Step(e) {
		switch a := a.(type) {
		case stream.Send:
			x.queue = append(x.queue, outgoing{send: &a})
		case stream.Nack:
			x.log.Warn("a client refuses config", "type", a.TypeURL, "error", a.Message)
		case stream.Unknown:
			// Istio's clients wait for an answer for every type, and there is nothing of this one.
			x.queue = append(x.queue, outgoing{send: &stream.Send{TypeURL: a.TypeURL, Nonce: "none"}, foreign: true})
		case stream.Shut:
			x.broken = status.Error(codes.InvalidArgument, a.Reason)
		}
	}
}
