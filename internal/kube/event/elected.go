package event

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// The rate limit of requests for Events, per second.
const (
	qps   = 5
	burst = 20
)

// Replica configures the Events of one replica of a control plane.
type Replica struct {
	Client *kube.Client
	// Revision is the revision of the control plane. The replicas of each revision elect a leader.
	Revision string
	// Pod is the name of this replica.
	Pod string
	// Found returns the Problems that all replicas of the revision find. The leader writes their
	// Events.
	Found func() []config.Problem
	// FoundByProxies returns the Problems that only this replica finds, because they are of its own
	// proxies. It writes their Events itself.
	FoundByProxies func() []config.Problem
	// Metrics counts Events by kind and Outcome.
	Metrics *obs.WriteMetrics
	Log     *slog.Logger
}

// RunElected writes Events on objects until ctx ends: for the Problems of Found while this replica
// is the leader, and for those of FoundByProxies always. It returns an error only if its rate
// limited client cannot be created, or for invalid options of the election.
func (r Replica) RunElected(ctx context.Context, elections *leader.Elections) error {
	client, err := r.Client.WithRateLimit(qps, burst)
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	writer := func(problems func() []config.Problem) *Writer {
		return New(Options{
			Problems: problems, Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Pod: r.Pod,
			Count: func(k api.Kind, o Outcome) { r.Metrics.Events.WithLabelValues(string(k), string(o)).Inc() },
			Log:   r.Log,
		})
	}
	task := leader.Events
	if r.Revision != "" && r.Revision != "default" {
		task += "-" + r.Revision
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return elections.Run(ctx, task, writer(r.Found).Run) })
	group.Go(func() error {
		return recovery.Loop(ctx, "events of this replica's proxies", func(ctx context.Context) error {
			writer(r.FoundByProxies).Run(ctx)
			return nil
		})
	})
	return group.Wait()
}
