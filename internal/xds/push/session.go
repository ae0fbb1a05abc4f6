package push

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

var (
	// ErrClosed is returned by Next after Close.
	ErrClosed = errors.New("the stream is closed")
	// ErrInternal is returned by Next after the stream's machine has panicked.
	ErrInternal = errors.New("internal error: the stream's state was lost; connect again")
)

// ProtocolError is how a client broke the protocol, or which limit it exceeded.
type ProtocolError struct {
	Reason string
	Limit  bool // a limit was exceeded
}

// Error returns the reason.
func (e ProtocolError) Error() string { return e.Reason }

// session is the state of one stream: its protocol machine, and the mailbox in which the newest
// World waits.
type session struct {
	env  *environment
	id   string
	node *mesh.Proxy
	mode stream.Mode

	mailbox atomic.Pointer[offer] // the newest World that the stream has not taken
	wake    chan struct{}         // holds one token when there may be something for Next

	mu      sync.Mutex
	machine *stream.Machine
	offered *offer               // the newest that was taken, nil before the first
	world   *stream.World        // of that offer
	out     *stream.Send         // for Next; the machine makes one at a time
	sent    map[string]time.Time // when the newest response of each type was written
	ended   error
	// changed is when the oldest change was published that the proxy has not answered completely.
	// It is zero if there is none.
	changed time.Time
	// sending means that something was sent for that change.
	sending bool
}

// offer is a World in a mailbox. All streams of a class share it.
type offer struct {
	world   *stream.World
	changed time.Time // when the change behind it was published; zero if there is none
	made    time.Time
	// accepted is the newest response part whose acceptance was reported, acceptedAll the newest
	// one that was reported together with the acceptance of everything of its type. Alike streams
	// share parts, and one report is enough.
	accepted, acceptedAll atomic.Pointer[stream.Payload]
}

// isReported reports whether the acceptance of a response was reported already by another stream.
// Otherwise it records that it is reported now.
func (o *offer) isReported(parts []*stream.Payload, everything bool) bool {
	if len(parts) != 1 {
		return false
	}
	if everything {
		return o.acceptedAll.Swap(parts[0]) == parts[0]
	}
	return o.acceptedAll.Load() == parts[0] || o.accepted.Swap(parts[0]) == parts[0]
}

// deliver puts an offer into the mailbox, in place of one that was not taken yet. The time of the
// older change is kept.
func (s *session) deliver(o *offer) {
	old := s.mailbox.Swap(o)
	if old != nil && !old.changed.IsZero() && (o.changed.IsZero() || old.changed.Before(o.changed)) {
		s.mailbox.CompareAndSwap(o, &offer{world: o.world, changed: old.changed, made: old.made})
	}
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// end makes Next return an error. The machine takes no more events.
func (s *session) end(err error) {
	s.mu.Lock()
	if s.ended == nil {
		s.stepMachine(stream.Close{})
	}
	s.ended, s.out, s.world, s.offered = err, nil, nil, nil
	s.mu.Unlock()
	s.mailbox.Store(nil)
	s.signal()
}

// stepMachine is Machine.Step. If that panics, the stream ends with ErrInternal and a closed
// Machine replaces the one whose state is not known. session.mu must be held.
//
// names are those of the type of a request that the proxy subscribed to before it.
func (s *session) stepMachine(e stream.Event) (actions []stream.Action, names []string) {
	defer func() {
		if s.env.recovery == nil {
			return
		}
		if v := recover(); v != nil {
			_ = s.env.recovery.Record(v, "xds", "proxy", s.node.ID, "connection", s.id, "event", eventName(e), "doing", "step")
			s.machine = stream.New(stream.Options{Mode: s.mode, Intern: s.env.names.intern})
			s.machine.Step(stream.Close{})
			s.ended, s.out, s.world, s.offered = ErrInternal, nil, nil, nil
			actions = nil
			s.signal()
		}
	}()
	if r, ok := e.(stream.Request); ok {
		names = s.machine.Names(r.TypeURL)
	}
	return s.machine.Step(e), names
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

// isVoter reports whether the rollout counts what the proxy accepts and refuses: it has proved an
// identity.
func (s *session) isVoter() bool { return s.node.Identity != "" }

// subscribed returns the names of a type that the proxy subscribes to. The list must not be
// changed.
func (s *session) subscribed(typeURL string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Names(typeURL)
}

// newestWorld returns the newest World that the stream has taken, and whether the proxy has
// acknowledged everything of it and no newer one waits.
func (s *session) newestWorld() (w *stream.World, acknowledged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world, s.mailbox.Load() == nil && s.machine.Converged()
}

// hasAcknowledged reports whether the proxy subscribes to the resource and has acknowledged this
// version.
func (s *session) hasAcknowledged(r *resource.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Acknowledged(r.TypeURL, r)
}

// hasAll reports whether the proxy has acknowledged those of the resources that it subscribes to.
func (s *session) hasAll(list []*resource.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if !s.machine.Has(r.TypeURL, r) {
			return false
		}
	}
	return true
}

// hasWorld reports whether the proxy has acknowledged everything of a World.
func (s *session) hasWorld(w *stream.World) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w != nil && s.world == w && s.machine.TookAll()
}

// Client is one connected stream. Requests, responses and Close may each come from a goroutine of
// their own.
type Client struct {
	session
	handle    rollout.Client
	peer      string
	connected time.Time
	secrets   secretSubscription
	// unregister removes the stream from the Pusher's table. It reports false if that was done
	// before.
	unregister func() bool
}
