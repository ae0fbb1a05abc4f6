package discovery

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/kube/event"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// The rate limit of requests for Events, per second.
const (
	eventQPS   = 5
	eventBurst = 20
)

// runEvents writes Events on objects until ctx ends. The leader of the revision's replicas writes
// those of objects with errors, which all replicas find. Each replica writes those of objects that
// its own proxies reject or have conflicts of. It returns at once without an API server or
// WriteEvents.
func (s *server) runEvents(ctx context.Context) error {
	if s.client == nil || !s.options.WriteEvents {
		return nil
	}
	client, err := s.client.WithRateLimit(eventQPS, eventBurst)
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	newWriter := func(problems func() []config.Problem) *event.Writer {
		return event.New(event.Options{
			Problems: problems, Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Pod: s.options.PodName,
			Count: func(k api.Kind, o event.Outcome) { s.metrics.Writes.Events.WithLabelValues(string(k), string(o)).Inc() },
			Log:   s.logs.Scope("event"),
		})
	}
	invalid := newWriter(func() []config.Problem {
		return slices.DeleteFunc(slices.Concat(s.analysisProblems(), s.current.Load().Problems()), remote.IsRemote)
	})
	task := leader.Events
	if r := s.options.Revision; r != "" && r != "default" {
		task += "-" + r
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.elections.Run(ctx, task, invalid.Run) })
	group.Go(func() error {
		found := func() []config.Problem { return slices.Concat(s.pages.Refusals(), s.inViews.Problems()) }
		return recovery.Loop(ctx, "events of this replica's proxies", func(ctx context.Context) error {
			newWriter(func() []config.Problem { return slices.DeleteFunc(found(), remote.IsRemote) }).Run(ctx)
			return nil
		})
	})
	return group.Wait()
}
