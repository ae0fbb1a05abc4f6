package options

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/diagnostics/pushtrace"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// ObservePushes logs slow pushes and exports traces of all pushes, as Push specifies, until ctx
// ends, and then returns nil. It returns an error if the settings of the exporter are not valid.
// Without TraceProtocol there are no traces.
func (o Options) ObservePushes(ctx context.Context, reports push.Reports, logs *obs.Logs) error {
	log := logs.Scope("ads")
	var tracer trace.Tracer
	if o.Push.TraceProtocol != "" {
		service := pushtrace.Service{Version: obs.ReadBuild().Version, Instance: o.PodName, Namespace: o.Namespace}
		t, stop, err := pushtrace.NewTracer(ctx, o.Push.TraceProtocol, service, obs.Limited(log))
		if err != nil {
			return err
		}
		defer stop()
		tracer = t
	}
	return recovery.Loop(ctx, "observe pushes", func(ctx context.Context) error {
		pushtrace.New(pushtrace.Options{
			Changes:  func() []push.Change { return reports.Changes(o.Push.Slow) },
			Progress: reports.ChangeProgress,
			Tracer:   tracer,
			Slow:     o.Push.Slow,
			Log:      log,
			Clock:    clock.System{},
		}).Run(ctx)
		return nil
	})
}
