package discovery

import (
	"context"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/kube/event"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// runEvents writes Events on objects until ctx ends. As the leader it writes them about errors,
// which all replicas find. Every replica writes them about objects that its own proxies reject or
// have conflicts of. It returns nil at once without an API server or WriteEvents, and the errors of
// event.Replica.
func (s *server) runEvents(ctx context.Context) error {
	if s.client == nil || !s.options.WriteEvents {
		return nil
	}
	return event.Replica{
		Client: s.client, Revision: s.options.Revision, Pod: s.options.PodName,
		Metrics: &s.metrics.Writes, Log: s.logs.Scope("event"),
		Found: func() []config.Problem {
			return slices.DeleteFunc(slices.Concat(s.analysisProblems(), s.current.Load().Problems()), remote.IsRemote)
		},
		FoundByProxies: func() []config.Problem {
			return slices.DeleteFunc(slices.Concat(s.pages.Refusals(), s.inViews.Problems()), remote.IsRemote)
		},
	}.RunElected(ctx, s.elections)
}
