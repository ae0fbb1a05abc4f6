package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// newRecovery returns the recorder of recovered panics in all parts. It logs them in the scope
// "default" and increments the metrics pilot_total_xds_internal_errors and meshpilot_panics_total.
// ADR 33 lists where panics are recovered and where they are not.
func newRecovery(logs *obs.Logs, m *obs.Metrics) *recovery.Recorder {
	return recovery.New(recovery.Options{Log: logs.Scope(obs.DefaultScope), Count: func(component string) {
		m.InternalErrors.Inc()
		m.Panics.WithLabelValues(component).Inc()
	}})
}

// notify calls f and recovers its panics, so that one part cannot prevent the others from being
// notified.
func (s *server) notify(part string, f func()) {
	_ = s.recovery.Call("task", func() error { f(); return nil }, "task", part) // The panic has been logged.
}

// restarting returns a task that restarts run after a panic (recovery.Loop).
func restarting(name string, run func(ctx context.Context)) func(ctx context.Context) {
	return func(ctx context.Context) {
		_ = recovery.Loop(ctx, name, func(ctx context.Context) error { run(ctx); return nil }) // run returns no error
	}
}
