package analysis

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

const (
	// recheckInterval is the interval for checking an unchanged snapshot again, because
	// certificates expire.
	recheckInterval = time.Hour
	// endpointsDelay is the delay of a run after a change of endpoints only. Pods change all the
	// time, and cause few Problems.
	endpointsDelay = 10 * time.Second
)

// Check returns the Problems of a snapshot. It may cache results between calls, which a single
// goroutine makes.
type Check func(s *snapshot.Snapshot, now time.Time) []config.Problem

// BackgroundOptions configure a Background.
type BackgroundOptions struct {
	// NewChecks returns the checks. It is called again after one of them has panicked, so that no
	// check continues with an inconsistent cache.
	NewChecks func() []Check
	// Complete returns the Problems of a snapshot with more details, such as the positions of fields.
	// If nil, they stay as the checks return them.
	Complete func(s *snapshot.Snapshot, list []config.Problem) []config.Problem
	// Report is called with the result of each run, sorted and without duplicates. changed is false
	// if the previous run had the same result.
	Report func(list []config.Problem, changed bool)
}

// Background checks the newest snapshot in its own goroutine, so that checks never delay pushes. It
// skips snapshots that are superseded while a run is in progress.
type Background struct {
	options BackgroundOptions
	newest  chan pending // a queue of one: a newer snapshot replaces the pending one
	result  atomic.Pointer[result]
}

type result struct {
	version uint64
	list    []config.Problem
}

// pending is a snapshot that has not been checked. urgent is false if it differs from the last
// checked snapshot in endpoints only.
type pending struct {
	*snapshot.Snapshot
	urgent bool
}

// NewBackground returns a Background that checks nothing until Run.
func NewBackground(o BackgroundOptions) *Background {
	b := &Background{options: o, newest: make(chan pending, 1)}
	b.result.Store(new(result))
	return b
}

// Publish enqueues a snapshot and its difference from the one before. It never blocks. Calls must
// not overlap. If one is still pending, the new one replaces it, and is urgent if either was; only
// a change of endpoints alone is not urgent.
func (b *Background) Publish(s *snapshot.Snapshot, d snapshot.Delta) {
	next := pending{s, !d.EndpointsOnly() || d.Empty()}
	select {
	case old := <-b.newest:
		next.urgent = next.urgent || old.urgent
	default:
	}
	b.newest <- next
}

// Problems returns the result of the last run and the version of the snapshot that it checked.
// Before the first run it returns 0 and nil. The list must not be modified.
func (b *Background) Problems() (version uint64, list []config.Problem) {
	r := b.result.Load()
	return r.version, r.list
}

// Run checks the newest snapshot until the context ends: at once after an urgent change, delayed
// after a change of endpoints, and again after recheckInterval. It pauses in proportion to the
// duration of a run. If a check panics, the result of that run is lost, the previous result remains
// and all checks start with an empty cache.
func (b *Background) Run(ctx context.Context) {
	var (
		checks  = b.options.NewChecks()
		current *snapshot.Snapshot
		delayed <-chan time.Time // set while a change of endpoints is delayed
	)
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-b.newest:
			current = next.Snapshot
			if !next.urgent {
				if delayed == nil {
					delayed = time.After(endpointsDelay)
				}
				continue
			}
		case <-delayed:
		case <-time.After(recheckInterval):
		}
		if current == nil {
			continue
		}
		delayed = nil
		began := time.Now()
		run := func() error { b.runChecks(checks, current, began); return nil }
		if err := recovery.Call(ctx, "task", run, "task", "analysis"); err != nil {
			checks = b.options.NewChecks()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(Pause(time.Since(began))):
		}
	}
}

// runChecks runs all checks on a snapshot, passes the Problems through Options.Complete if that is
// set, and stores them, sorted and without duplicates. It always calls Options.Report, with true if
// the list changed or is the first.
func (b *Background) runChecks(checks []Check, s *snapshot.Snapshot, now time.Time) {
	var list []config.Problem
	for _, check := range checks {
		list = append(list, check(s, now)...)
	}
	if b.options.Complete != nil {
		list = b.options.Complete(s, list)
	}
	slices.SortFunc(list, config.Problem.Compare)
	list = slices.Compact(list)
	last := b.result.Swap(&result{version: s.Version, list: list})
	b.options.Report(list, last.version == 0 || !slices.Equal(last.list, list))
}

// Pause returns the delay after a run: 20 times its duration, between 50 ms and 2 s. A mesh that
// changes all the time then costs at most a twentieth of one CPU.
func Pause(took time.Duration) time.Duration {
	return min(max(20*took, 50*time.Millisecond), 2*time.Second)
}
