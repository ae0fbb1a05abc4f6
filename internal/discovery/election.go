package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/kube/leader"
)

// newElections returns the leader elections in which this replica takes part, or nil without an API
// server.
func (s *server) newElections() *leader.Elections {
	if s.client == nil {
		return nil
	}
	return leader.New(leader.Options{
		Client: s.client.Kubernetes.CoordinationV1(), Namespace: s.options.Namespace, Identity: s.options.PodName,
		OnChange: s.metrics.leading, Log: s.logs.Scope("leader"),
	})
}

// lead runs do while this replica is the leader of the task, until ctx ends. A task that panics is
// restarted.
func (s *server) lead(ctx context.Context, task string, do func(context.Context)) error {
	return s.elections.Run(ctx, task, restarting("leader of "+task, do))
}

func (x metrics) leading(task string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	x.m.Writes.Leading.WithLabelValues(task).Set(value)
}
