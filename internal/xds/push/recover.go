package push

import (
	"errors"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Panics are recovered where they concern one proxy, and where nothing is shared yet: in the Machine of a stream, which is then
// thrown away, and in the computation of a proxy's Key, which is pure. The turn of the Pusher and what it keeps for all
// proxies under Pusher.mu are not recovered: nothing shows that they are consistent after a panic, and a control plane that
// starts again builds them anew while proxies keep what they have.

// ErrInternal is why Next returns nothing more after the stream's machine has panicked.
var ErrInternal = errors.New("internal error: the stream's state was lost; connect again")

// keyFor is view.KeyFor. ok is false if that panicked: then the client stays in the class in which it is, or without one and
// unserved, until a later turn finds its Key.
func (p *Pusher) keyFor(s *snapshot.Snapshot, proxy *mesh.Proxy) (key view.Key, ok bool) {
	err := p.recovery.Call("xds", func() error { key = view.KeyFor(s, proxy); return nil }, "proxy", proxy.ID, "namespace", proxy.Namespace, "doing", "find class")
	return key, err == nil
}

// keyMoves is view.KeyMoves from the newest turn's snapshot to the next. Where that panics, it counts as a move, and the Key is
// looked for. Pusher.mu is held.
func (p *Pusher) keyMoves(in inbox) func(*mesh.Proxy) bool {
	all := func(*mesh.Proxy) bool { return true }
	moves, old := all, p.snapshot
	if p.recovery.Call("xds", func() error { moves = view.KeyMoves(old, in.snapshot, in.delta); return nil }, "doing", "compare classes") != nil {
		return all
	}
	return func(proxy *mesh.Proxy) (moved bool) {
		err := p.recovery.Call("xds", func() error { moved = moves(proxy); return nil }, "proxy", proxy.ID, "doing", "compare classes")
		return moved || err != nil
	}
}

// touched is producer.touched. Where that panics, the product counts as touched, and is made again. Pusher.mu is held.
func (p *Pusher) touched(pr *producer, d snapshot.Delta) (touched bool) {
	err := p.recovery.Call("xds", func() error { touched = pr.touched(p.snapshot, d); return nil }, "type", pr.gen.TypeURL, "doing", "compare products")
	return touched || err != nil
}

// recordGenerator counts the panic of a generator, which producer.make recovers: its product stays as it was.
func (p *Pusher) recordGenerator(v any, pr *producer) {
	if p.recovery != nil {
		_ = p.recovery.Record(v, "generator", "type", pr.gen.TypeURL, "class", pr.scope)
	}
}

// stepMachine is Machine.Step. If that panics, the stream ends with ErrInternal, and a Machine that is closed takes the place of
// the one whose state is not known. Client.mu is held.
func (c *Client) stepMachine(e stream.Event) (actions []stream.Action) {
	if c.p.recovery == nil {
		return c.machine.Step(e)
	}
	defer func() {
		if v := recover(); v != nil {
			_ = c.p.recovery.Record(v, "xds", "proxy", c.proxy.ID, "connection", c.id, "event", eventName(e), "doing", "step")
			c.machine = stream.New(stream.Options{Mode: c.mode, Intern: c.p.names.intern})
			c.machine.Step(stream.Close{})
			c.shut, c.out, c.world = ErrInternal, nil, nil
			actions = nil
			c.rouse()
		}
	}()
	return c.machine.Step(e)
}

// eventName returns the name of an event for the log, with the type of a request.
func eventName(e stream.Event) string {
	switch e := e.(type) {
	case stream.Request:
		return "request " + e.TypeURL
	case stream.Ready:
		return "ready"
	case stream.Sent:
		return "sent"
	case stream.Close:
		return "close"
	default:
		return "time"
	}
}
