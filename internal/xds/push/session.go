package push

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

var (
	// ErrClosed is returned by Next after Close.
	ErrClosed = errors.New("the stream is closed")
	// ErrInternal is returned by Next after the stream's machine has panicked.
	ErrInternal = errors.New("internal error: the stream's state was lost; connect again")
)

// ProtocolError describes how a client violated the protocol, or which limit it exceeded.
type ProtocolError struct {
	Reason string
	Limit  bool // a limit was exceeded
}

// Error returns the reason.
func (e ProtocolError) Error() string { return e.Reason }

// session is the state of one stream: its protocol machine, and a mailbox for the newest
// ResourceSnapshot.
type session struct {
	env  *environment
	id   string
	node *mesh.Proxy
	mode stream.Mode
	// syncState is the stream.SyncState of the machine after the last event, for readers without
	// mu.
	syncState atomic.Uint32

	mailbox atomic.Pointer[offer] // the newest ResourceSnapshot that the stream has not taken
	wake    notify.Wake           // wakes Next when it may have something to return

	mu        sync.Mutex
	machine   *stream.Machine
	offered   *offer                   // the newest offer that was taken; nil before the first
	resources *stream.ResourceSnapshot // of that offer
	out       *stream.Send             // the response for Next; the machine produces one at a time
	sent      map[string]time.Time     // when the newest response of each type was written
	ended     error
	// changed is when the oldest change was published that the proxy has not answered completely.
	// It is zero if there is none.
	changed time.Time
	// sending is true if a response was sent for that change.
	sending bool
	// answer is which recorded changes the proxy has still to answer.
	answer changeAnswer
}

// offer is a ResourceSnapshot in a mailbox. All streams of a class share it.
type offer struct {
	resources *stream.ResourceSnapshot
	changed   time.Time // when the change behind it was published; zero if there is none
	made      time.Time
	// changes are in the ResourceSnapshot and not in the ResourceSnapshot that the stream has taken
	// before.
	changes pendingChanges
	// accepted is the newest response part whose acceptance was reported. acceptedAll is the newest
	// part that was reported together with the acceptance of everything of its type. Similar
	// streams share parts, and one report is enough.
	accepted, acceptedAll atomic.Pointer[stream.Payload]
}

// isReported reports whether another stream that got this offer has already reported the acceptance
// of the same part. everything is set if the proxy has accepted everything of the type, which is
// reported once even if the part alone was. If not, it records the part as reported, in place of
// the last one. It returns false for a response that does not have exactly one part.
func (o *offer) isReported(parts []*stream.Payload, everything bool) bool {
	if len(parts) != 1 {
		return false
	}
	if everything {
		return o.acceptedAll.Swap(parts[0]) == parts[0]
	}
	return o.acceptedAll.Load() == parts[0] || o.accepted.Swap(parts[0]) == parts[0]
}

// setOffer puts an offer into the mailbox, replaces an offer that was not taken yet, and wakes the
// writer. It keeps the changes of the older offer and the time of the oldest. It takes back the
// last answer of the stream if that was about one of the changes of o (uncount).
func (s *session) setOffer(o *offer) {
	for old := s.mailbox.Load(); !s.mailbox.CompareAndSwap(old, o.replacing(old)); {
		old = s.mailbox.Load()
	}
	s.answer.uncount(o.changes, &s.env.changes)
	s.wake.Notify()
}

// replacing returns a new offer with o's resources and the changes of o and of old, which was not
// taken. It returns o itself if old is nil or not the result of a change. The time changed is the
// earlier time of the two offers, without unset times, and made is from the same offer.
func (o *offer) replacing(old *offer) *offer {
	if old == nil || old.changed.IsZero() && old.changes.isEmpty() {
		return o
	}
	both := &offer{resources: o.resources, changed: o.changed, made: o.made, changes: o.changes}
	both.changes.merge(old.changes)
	if !old.changed.IsZero() && (o.changed.IsZero() || old.changed.Before(o.changed)) {
		both.changed, both.made = old.changed, old.made
	}
	return both
}

// endSession makes Next return err, also if the stream had ended with another error. It closes the
// machine, and discards the ResourceSnapshot, the mailbox and the pending response. The proxy is
// counted as disconnected in the changes that it has not answered, including those in the mailbox.
// It locks session.mu.
func (s *session) endSession(err error) {
	s.mu.Lock()
	if s.ended == nil {
		s.stepMachine(stream.Close{})
	}
	s.ended, s.out, s.resources, s.offered = err, nil, nil, nil
	left := s.answer.pending
	s.answer.pending = pendingChanges{}
	s.mu.Unlock()
	if o := s.mailbox.Swap(nil); o != nil {
		left.merge(o.changes)
	}
	s.env.changes.addDisconnected(left)
	s.wake.Notify()
}

// stepMachine applies e to the machine and returns its actions. If e is a request, names are the
// names of its type that the proxy subscribed to before it, otherwise nil. session.mu must be held.
//
// If the machine panics, the stream ends with ErrInternal and no actions, and a closed Machine
// replaces the present one, whose state is unknown. Without Recovery the panic is not recovered.
func (s *session) stepMachine(e stream.Event) (actions []stream.Action, names []string) {
	defer func() {
		if s.env.recovery == nil {
			return
		}
		if v := recover(); v != nil {
			_ = s.env.recovery.Record(v, "xds", "proxy", s.node.ID, "connection", s.id,
				"event", eventName(e), "doing", "step")
			s.machine = stream.New(stream.Options{Mode: s.mode, Intern: s.env.names.internNames})
			s.machine.Step(stream.Close{})
			s.updateSyncState()
			s.ended, s.out, s.resources, s.offered = ErrInternal, nil, nil, nil
			actions = nil
			s.wake.Notify()
		}
	}()
	if r, ok := e.(stream.Request); ok {
		names = s.machine.Names(r.TypeURL)
	}
	actions = s.machine.Step(e)
	s.updateSyncState()
	return actions, names
}

// updateSyncState sets syncState to the state of the machine. session.mu must be held.
func (s *session) updateSyncState() { s.syncState.Store(uint32(s.machine.SyncState())) }

// eventName returns the name of an event for the log, with the type of a request. Events that are
// none of request, ready, sent and close are "time".
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

// isVoter reports whether the proxy has proved an identity. The rollout considers the ACKs and
// NACKs of voters only.
func (s *session) isVoter() bool { return s.node.Identity != "" }

// subscribedNames returns the sorted names of a type that the proxy subscribes to, nil if there are
// none. The caller must not change the list.
func (s *session) subscribedNames(typeURL string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Names(typeURL)
}

// newestResources returns the newest ResourceSnapshot that the stream has taken, or nil if there is
// none. acknowledged is the result of hasAcknowledgedNewest.
func (s *session) newestResources() (w *stream.ResourceSnapshot, acknowledged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resources, s.hasAcknowledgedNewest()
}

// hasAcknowledgedNewest reports whether the stream has taken a ResourceSnapshot, no newer one is in
// the mailbox, and no answer to a response is awaited any more (stream.Machine.HasConverged).
// session.mu must be held.
func (s *session) hasAcknowledgedNewest() bool {
	return s.resources != nil && s.mailbox.Load() == nil && s.machine.HasConverged()
}

// hasAcknowledged reports whether the proxy subscribes to the resource and has acknowledged exactly
// this version of it.
func (s *session) hasAcknowledged(r *resource.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.HasAckedSubscribed(r)
}

// hasAll reports whether the proxy has acknowledged all resources of the list in these versions.
// Resources that it does not subscribe to are ignored.
func (s *session) hasAll(list []*resource.Resource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if !s.machine.HasAcked(r) {
			return false
		}
	}
	return true
}

// hasResources reports whether w is the ResourceSnapshot that the stream took last and the proxy
// has acknowledged everything of it. It returns false if w is nil.
func (s *session) hasResources(w *stream.ResourceSnapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w != nil && s.resources == w && s.machine.AckedAll()
}

// Client is one connected stream. Requests, responses and Close may each be handled by a goroutine
// of their own.
type Client struct {
	session
	handle    rollout.Client
	peer      string
	connected time.Time
	// invalidMetadata are the invalid values in the metadata of the proxy, computed once.
	invalidMetadata []snapshot.InvalidMetadata
	secrets         secretSubscription
	// turn is the newest turn with resources that the stream was offered. It belongs to the owner.
	turn uint64
	// unregister removes the stream from the Pusher's table. It returns false if the stream was
	// removed before.
	unregister func() bool
}
