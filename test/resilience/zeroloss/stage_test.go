package zeroloss

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const (
	// effectTime bounds how long an event may take to show.
	effectTime = 20 * time.Second
	poll       = 10 * time.Millisecond
)

// stage is where events happen.
type stage struct {
	*world
	load    *load.Load
	took    map[string][]time.Duration // time until events were applied, by name
	churn   map[string]churn           // what sidecars did for them
	before  churn                      // their counts before the last event
	kept    *http.Client               // a client of echo.mesh that keeps its connection
	refused int                        // updates that the client's Envoy has refused so far
}

// startStage starts the load, and waits for the effect of a first edit.
func startStage(t *testing.T, w *world) *stage {
	t.Helper()
	s := &stage{world: w, load: load.Start(w.lanes()), took: map[string][]time.Duration{}, churn: map[string]churn{}, kept: w.client()}
	s.play(t, event{name: warmUp, do: edit(func(*state) {}), seen: generationSeen})
	return s
}

// finish ends the load, reports requests and losses for a check and fails the test if a request was lost.
func (s *stage) finish(t *testing.T, logs *evidence, check scorecard.Record, events ...string) {
	t.Helper()
	tally := s.load.Stop()
	if err := logs.collect(t.Context(), tally.Failures); err != nil {
		t.Error(err)
	}
	all := tally.Sum(nil)
	check.Measured("requests", all.Sent)
	check.Measured("requests per second", int(tally.Rate()))
	check.Measured("requests lost", all.Failed)
	t.Log("\n" + s.table(tally, append([]string{warmUp}, events...)))
	s.judge(t, tally, logs, leastRateOfFaults)
}

// play lets an event happen and waits for its effect. After a failure nothing happens any more.
func (s *stage) play(t *testing.T, e event) {
	t.Helper()
	if t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), effectTime)
	defer cancel()
	begin := time.Now()
	s.load.During(e.name)
	err := e.do(ctx, s)
	if err == nil {
		if err = e.seen(ctx, s, begin); err != nil {
			err = fmt.Errorf("no effect within %s: %w", effectTime, err)
		}
	}
	took := time.Since(begin)
	if err == nil {
		err = s.settled(ctx)
	}
	if err != nil {
		t.Errorf("%s, repetition %d: %v", e.name, len(s.took[e.name])+1, err)
		s.diagnose(t)
		return
	}
	s.took[e.name] = append(s.took[e.name], took)
	now, err := s.world.churn(ctx)
	if err != nil {
		t.Error(err)
	}
	done := now.minus(s.before)
	if e.still && done.chains+done.listeners > 0 {
		t.Errorf("%s, repetition %d: sidecars have replaced %d listeners, %d of them completely", e.name, len(s.took[e.name]), done.chains+done.listeners, done.listeners)
	}
	s.churn[e.name] = s.churn[e.name].plus(done)
	s.before = now
}

// settled waits until every lane has an answer to a request that was sent after the effect was seen.
func (s *stage) settled(ctx context.Context) error {
	since := time.Now()
	for _, h := range hosts() {
		if err := answersOn(h.name, true, func(load.Seen) error { return nil })(ctx, s, since); err != nil {
			return fmt.Errorf("after it has shown: %w", err)
		}
	}
	return nil
}

// eventually waits until a check is content; its last error is returned when ctx ends.
func eventually(ctx context.Context, check func() error) error {
	var last error
	for {
		err := check()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return last
		}
	}
}
