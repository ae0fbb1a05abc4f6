package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// FollowOptions configure a Follower. All fields are optional.
type FollowOptions struct {
	// Backoff is the pause before Watch is called again after an error (default 500 ms). It doubles
	// with each failure in a row up to MaxBackoff (default 30 s). Each pause has a random length
	// between half and all of that.
	Backoff, MaxBackoff time.Duration
	// HoldTime is how long held instances stay at least while the platform answers. After it they
	// are removed, if the platform then lists at least as many instances as are held. If 0, which
	// is the default, they stay until they are registered again.
	HoldTime time.Duration
	// MaxServices limits the number of services (default 100,000). More are refused with a problem.
	MaxServices int
	// Observe is called with the Status after each report of the platform and each error, if it is
	// set. It must not block.
	Observe func(Status)
	Clock   Clock          // default: the system clock
	Random  func() float64 // in [0,1); default: math/rand
	Logger  *slog.Logger   // if nil, nothing is logged

	restored *savedState // the state of an earlier process; nil without one
}

// Clock provides the time and timers.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Change is what changed in the state of a platform. The services and maps must not be changed.
type Change struct {
	// Set has the new and the changed services, Deleted the keys of the removed ones.
	Set     []Service
	Deleted []ServiceKey
	// Problems are changed problems by service. A nil error clears the problem. The zero key is the
	// platform itself.
	Problems map[ServiceKey]error
	// Synced is set in the first Change that contains every service. No Change before it sets
	// services.
	Synced bool
}

// Status is the state of a Follower.
type Status struct {
	// Synced reports whether the running Watch has reported everything. It is false while the
	// platform cannot be read.
	Synced bool
	// LastSync is when Watch last reported everything, and LastChange when a service last changed.
	// Both are zero before.
	LastSync, LastChange time.Time
	// Unreadable is when the platform became unreadable, or zero while Synced.
	Unreadable time.Time
	// Error is the error of the last Watch, until the next one is synced.
	Error string
	// Failures is how often Watch has failed since the start.
	Failures int
	// Services and Instances are in use. Held is how many of these instances the platform does not
	// list. Problems is how many services have a problem.
	Services, Instances, Held, Problems int
}

// Follower runs a Platform and keeps its last known state. It retries with backoff, holds the state
// on errors, and guards against the removal of instances by a server that lost its data.
type Follower struct {
	platform Platform
	o        FollowOptions
	apply    func(Change)

	mu     sync.Mutex // held while apply runs
	state  state
	status atomic.Pointer[Status]
	// session is the running call of Watch; its Sink is ignored if the number differs.
	session    int
	holdTimers chan struct{} // receives when instances are held
	unsaved    chan struct{} // receives when save returns another state than before
}

// NewFollower returns a Follower with defaults for unset options, which starts with Run. apply is
// called with each change, one call at a time. It may block, which delays the platform.
func NewFollower(p Platform, o FollowOptions, apply func(Change)) *Follower {
	o.Backoff = cmp.Or(o.Backoff, 500*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	o.MaxServices = cmp.Or(o.MaxServices, 100_000)
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Follower{
		platform: p, o: o, apply: apply, state: newState(o.MaxServices),
		holdTimers: make(chan struct{}, 1), unsaved: make(chan struct{}, 1),
	}
	if o.restored != nil {
		f.state.restore(o.restored)
	}
	return f
}

// Run emits a restored state, and then calls Watch until ctx ends, with a growing random pause
// after each failure, which it logs. The pause is reset if the failed Watch was synced. Run returns
// after the last call of Watch has returned.
func (f *Follower) Run(ctx context.Context) {
	f.mu.Lock()
	f.state.status.Unreadable = f.o.Clock.Now()
	f.emit()
	f.mu.Unlock()
	delays := backoff.ExponentialBackOff{
		InitialInterval: min(f.o.Backoff, f.o.MaxBackoff),
		Multiplier:      2,
		MaxInterval:     f.o.MaxBackoff,
	}
	for ctx.Err() == nil {
		err := f.runSession(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.endSession(err) {
			delays.Reset()
		}
		pause := f.addJitter(delays.NextBackOff())
		f.o.Logger.Warn(f.describeFailure(), "error", err, "retry", pause.Round(time.Millisecond))
		select {
		case <-ctx.Done():
		case <-f.o.Clock.After(pause):
		}
	}
}

// Status returns the current state, or the zero Status before Run.
func (f *Follower) Status() Status {
	if s := f.status.Load(); s != nil {
		return *s
	}
	return Status{}
}

// runSession begins a session, calls Watch once and returns its error, which is never nil. While
// Watch runs, it releases held instances when their HoldTime has passed.
func (f *Follower) runSession(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	f.session++
	s := &session{Follower: f, number: f.session}
	f.state.beginSession()
	f.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- f.callWatch(ctx, s) }()
	for {
		var release <-chan time.Time
		if at, holding := f.releaseTime(); holding {
			release = f.o.Clock.After(at.Sub(f.o.Clock.Now()))
		}
		select {
		case err := <-done:
			return err
		case <-f.holdTimers:
		case <-release:
			s.update(func() { f.state.releaseHeld(f.o.Clock.Now(), f.o.HoldTime) })
		}
	}
}

// callWatch calls Watch and returns why it ended, never nil. A panic on its goroutine is logged and
// becomes an error.
func (f *Follower) callWatch(ctx context.Context, s Sink) (err error) {
	defer func() {
		if value := recover(); value != nil {
			f.o.Logger.Error("the platform panicked", "panic", value, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: panic: %v", value)
		}
	}()
	if err := f.platform.Watch(ctx, s); err != nil {
		return err
	}
	return errors.New("the platform ended its watch")
}

// endSession records the end of a call of Watch, whose Sink has no effect from then on, and emits
// the change. It reports whether that call was synced.
func (f *Follower) endSession(err error) (synced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	synced = f.state.status.Synced
	f.session++
	f.state.endSession(err, f.o.Clock.Now())
	f.emit()
	return synced
}

// describeFailure returns the log message of a failure of the platform. It depends on whether a
// last known state is in use.
func (f *Follower) describeFailure() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.started {
		return "the platform cannot be read; its last known state stays in use"
	}
	return "the platform cannot be read; its services are added when it can be read"
}

// addJitter returns a random duration between half of d and d.
func (f *Follower) addJitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(f.o.Random()*float64(d/2))
}

// releaseTime returns when held instances may be released, and reports whether there are any. It
// reports false while the platform cannot be read, and if HoldTime is 0.
func (f *Follower) releaseTime() (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.state.status.Synced || f.state.kept == 0 || f.o.HoldTime == 0 {
		return time.Time{}, false
	}
	return f.state.held.Add(f.o.HoldTime), true
}

// emit updates the status and passes it to Observe. If there is a pending change, it passes that to
// apply and wakes the writer of the state file. f.mu must be held.
func (f *Follower) emit() {
	c, changed := f.state.drain(f.o.Clock.Now())
	status := f.state.status
	if status.Synced {
		status.Held = f.state.kept + f.state.reportedHeld
	}
	f.status.Store(&status)
	if f.o.Observe != nil {
		f.o.Observe(status)
	}
	if changed {
		f.apply(c)
		wake(f.unsaved)
	}
}

// session is the Sink of one call of Watch.
type session struct {
	*Follower
	number int
}

var _ Sink = (*session)(nil)

// update calls edit with the Follower's lock held, which the caller must not hold, and emits the
// change. It does nothing if the call of Watch has ended. If the number of held instances changes
// and is not zero, and the session is synced, it wakes the timer of held ones.
func (s *session) update(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number != s.session {
		return
	}
	kept := s.state.kept
	edit()
	s.emit()
	if s.state.status.Synced && s.state.kept > 0 && s.state.kept != kept {
		wake(s.holdTimers)
	}
}

// wake makes the receiver of c run, once for several calls. It never blocks.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Set creates or replaces a service (state.set) and emits the change. It has no effect after the
// call of Watch has ended.
func (s *session) Set(service Service) { s.update(func() { s.state.set(service) }) }

// Delete removes a service (state.remove) and emits the change. It has no effect after the call of
// Watch has ended.
func (s *session) Delete(key ServiceKey) { s.update(func() { s.state.remove(key) }) }

// Report sets or clears the problem of a service or the platform (state.report) and emits the
// change. It has no effect after the call of Watch has ended.
func (s *session) Report(key ServiceKey, err error) {
	s.update(func() { s.state.report(key, err) })
}

// Synced calls SyncedGeneration without a generation, so all missing instances are held.
func (s *session) Synced() { s.SyncedGeneration("") }

// SyncedGeneration removes or holds the services and instances that were not reported (state.sync).
// Held instances are logged, the change is emitted and the state is saved. It does nothing if the
// session is synced already or the call of Watch has ended.
func (s *session) SyncedGeneration(generation string) {
	s.update(func() {
		if s.state.status.Synced {
			return
		}
		s.state.sync(generation, s.o.Clock.Now())
		wake(s.unsaved)
		if kept := s.state.kept; kept > 0 {
			wake(s.holdTimers)
			s.o.Logger.Warn("the platform does not list all known instances, and may have lost its data; they are held",
				"instances", kept)
		}
	})
}
