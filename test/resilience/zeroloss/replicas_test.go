package zeroloss

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// planes returns all replicas of the control plane.
func (w *world) planes() []*component.ControlPlane {
	return slices.Concat([]*component.ControlPlane{w.ControlPlane}, w.Others)
}

// TestReplicasAreKilled kills one replica after the other with SIGKILL while requests run, changes
// configuration while it is away and starts it again at its address. No request may be lost, and
// every proxy has the change soon.
func TestReplicasAreKilled(t *testing.T) {
	const count = 3
	kills := scorecard.BySize(6, 200, 5000)
	check := scorecard.Check(t, 4, scorecard.Size("kills", kills), scorecard.Size("replicas", count))
	longtest.Test(t)
	w := startReplicas(t, count)
	s := startStage(t, w)
	logs := newEvidence(w)
	const name = "kill -9 of a replica"
	for i := range kills {
		victim := w.planes()[i%count]
		s.play(t, event{name: name, seen: all(generationSeen, poolSeen), do: func(ctx context.Context, s *stage) error {
			if err := victim.Kill(); err != nil {
				return err
			}
			if err := edit(func(s *state) { s.MaxConnections++ })(ctx, s); err != nil {
				return err
			}
			return victim.Start(ctx)
		}})
	}
	_, worst := spread(s.took[name])
	check.Measured("kills", len(s.took[name]))
	check.Measured("longest from the kill until proxies have the change", worst)
	s.finish(t, logs, check, name)
}

// TestNoReplicaRuns kills all replicas and lets requests run without any for a time. Then they are
// restarted, and changes are applied. No request may fail.
func TestNoReplicaRuns(t *testing.T) {
	outage := scorecard.BySize(10*time.Second, 5*time.Minute, time.Hour)
	check := scorecard.Check(t, 5, scorecard.Size("outage", outage), scorecard.Size("replicas", 2))
	longtest.Test(t)
	w := startReplicas(t, 2)
	s := startStage(t, w)
	logs := newEvidence(w)
	const away, back = "no control plane", "all replicas return"
	s.load.During(away)
	for _, c := range w.planes() {
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := edit(func(s *state) { s.MaxConnections++ })(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	select {
	case <-time.After(outage): // not a wait for a condition: the outage lasts
	case <-t.Context().Done():
	}
	s.play(t, event{name: back, seen: all(generationSeen, poolSeen), do: func(ctx context.Context, s *stage) error {
		var errs []error
		for _, c := range s.planes() {
			errs = append(errs, c.Start(ctx))
		}
		return errors.Join(errs...)
	}})
	_, took := spread(s.took[back])
	check.Measured("from the start of the replicas until proxies have the change", took)
	s.finish(t, logs, check, away, back)
}

// TestRestartChangesNothing restarts the control plane. Real sidecars that have everything must not
// replace a cluster or a listener because of it.
func TestRestartChangesNothing(t *testing.T) {
	restarts := scorecard.BySize(2, 20, 200)
	check := scorecard.Check(t, 7, scorecard.Size("restarts", restarts), scorecard.Size("real sidecars", 3))
	longtest.Test(t)
	w := startReplicas(t, 1)
	s := startStage(t, w)
	logs := newEvidence(w)
	const name = "restart without a change"
	for range restarts {
		// The edit of a route shows that proxies are connected again. Routes are no part of
		// clusters and listeners.
		s.play(t, event{name: name, seen: generationSeen, do: func(ctx context.Context, s *stage) error {
			if err := s.ControlPlane.Stop(); err != nil {
				return err
			}
			if err := s.ControlPlane.Start(ctx); err != nil {
				return err
			}
			return edit(func(*state) {})(ctx, s)
		}})
	}
	done := s.churn[name]
	check.Measured("clusters modified", done.clusters)
	check.Measured("listeners modified", done.chains+done.listeners)
	if done != (churn{}) {
		t.Errorf("%d restarts replaced %d clusters and %d listeners, %d of them whole", restarts, done.clusters,
			done.chains+done.listeners, done.listeners)
	}
	s.finish(t, logs, check, name)
}
