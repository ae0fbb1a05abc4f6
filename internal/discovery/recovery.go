package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// newRecovery makes what recovers panics of all parts: it logs them in the scope "default", and counts them in the metrics
// pilot_total_xds_internal_errors and meshpilot_panics_total. ADR 33 says where panics are recovered and where they are not.
func newRecovery(logs *obs.Logs, m *obs.Metrics) *recovery.Recorder {
	return recovery.New(recovery.Options{Log: logs.Scope(obs.DefaultScope), Count: func(component string) {
		m.InternalErrors.Inc()
		m.Panics.WithLabelValues(component).Inc()
	}})
}

// notify calls a part that wants to know of a new snapshot or batch: a panic of it keeps nothing from the others.
func (s *server) notify(part string, f func()) {
	_ = s.recovery.Call("task", func() error { f(); return nil }, "task", part) // it is logged
}

// restarting returns a task that starts again if it panics (recovery.Loop).
func restarting(name string, run func(ctx context.Context)) func(ctx context.Context) {
	return func(ctx context.Context) {
		_ = recovery.Loop(ctx, name, func(ctx context.Context) error { run(ctx); return nil }) // run has no error
	}
}
