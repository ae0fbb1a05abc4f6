package discovery

import (
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

func (x metrics) leading(task string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	x.m.Writes.Leading.WithLabelValues(task).Set(value)
}
