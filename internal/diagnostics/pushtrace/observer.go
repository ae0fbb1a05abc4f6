package pushtrace

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

const (
	// interval is the time between two looks at the record.
	interval = time.Second
	// settleTime is how long all proxies must have answered a change before it is reported: the
	// server-first barrier may hold back a part of it for longer than others take to answer.
	settleTime = 3 * time.Second
	// maxAge is when a change is reported that some proxies have not answered.
	maxAge = 5 * time.Minute
)

// Options are the dependencies of an Observer.
type Options struct {
	// Changes returns the last changes, newest first. Progress returns a number that differs when
	// one of them may, except in Change.Behind.
	Changes  func() []push.Change
	Progress func() uint64
	// Tracer starts the spans. If nil, there are none.
	Tracer trace.Tracer
	// Slow is the time until the last acknowledgement from which a push is logged. If not positive,
	// none is.
	Slow  time.Duration
	Log   *slog.Logger
	Clock clock.Clock
}

// Observer reports changes. Its methods are for one goroutine.
type Observer struct {
	o        Options
	progress uint64
	open     bool // a change is not reported yet
	changes  map[uint64]*observed
}

// observed is what the Observer knows of a recorded change.
type observed struct {
	// settled is when all proxies had answered; zero if one has not.
	settled          time.Time
	logged, reported bool
}

// New returns an Observer.
func New(o Options) *Observer { return &Observer{o: o, changes: map[uint64]*observed{}} }

// Run looks at the record once a second until ctx ends. It returns at once if Tracer is nil and
// Slow is 0 or negative. Changes that have not settled when ctx ends are not reported.
func (x *Observer) Run(ctx context.Context) {
	if x.o.Tracer == nil && x.o.Slow <= 0 {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.o.Clock.After(interval):
		}
		x.reportChanges()
	}
}

// reportChanges reports the changes that have settled since the last call or are too old, and logs
// changes that have become slow. It does nothing if the record has not changed and all are
// reported.
func (x *Observer) reportChanges() {
	progress := x.o.Progress()
	if progress == x.progress && !x.open {
		return
	}
	x.progress, x.open = progress, false
	now := x.o.Clock.Now()
	list := x.o.Changes()
	recorded := map[uint64]*observed{}
	for _, c := range slices.Backward(list) {
		state := x.changes[c.Number]
		if state == nil {
			state = new(observed)
		}
		recorded[c.Number] = state
		if !state.reported {
			x.follow(&c, state, now)
		}
		x.open = x.open || !state.reported
	}
	x.changes = recorded
}

// follow logs the change once if it has taken longer than Slow, unless that is 0. It emits its
// trace, if there is a Tracer, when nothing was pending for settleTime or the change is older than
// maxAge. Then it sets state.reported.
func (x *Observer) follow(c *push.Change, state *observed, now time.Time) {
	switch {
	case c.Generated == nil || c.Pending() > 0:
		state.settled = time.Time{}
	case state.settled.IsZero():
		state.settled = now
	}
	if took := age(c, now); x.o.Slow > 0 && !state.logged && took > x.o.Slow {
		state.logged = true
		x.logSlow(c, took)
	}
	settled := !state.settled.IsZero() && now.Sub(state.settled) >= settleTime
	if !settled && now.Sub(c.Published) < maxAge {
		return
	}
	state.reported = true
	if x.o.Tracer != nil {
		x.trace(c, now)
	}
}

// age returns the time from the change until now if it is not generated yet or a proxy has not
// answered it. Otherwise it is the time until the last answer, at least that of gathering and
// generating.
func age(c *push.Change, now time.Time) time.Duration {
	if c.Generated == nil || c.Pending() > 0 {
		return now.Sub(c.Published)
	}
	return max(c.Last, c.Generated.Gathered+c.Generated.Took)
}
