package discovery

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// newStatus sets s.status, the writer of the status of objects, with s.applied and s.inViews. It
// does nothing without an API server. It returns an error if its client cannot be created.
func (s *server) newStatus() error {
	if s.client == nil {
		return nil
	}
	o := s.options
	limits := o.Status.Limits.WithDefaults()
	client, err := s.client.WithRateLimit(limits.QPS, limits.Burst)
	if err != nil {
		return err
	}
	s.applied = status.NewAppliedObjects(o.ClusterFeedName(), nil)
	s.inViews = analysis.NewCached(s.pages.FoundInViews, func() uint64 { return s.current.Load().Version }, nil)
	s.status = status.New(status.Options{
		Inputs: status.Inputs{
			Applied: s.applied, InUse: s.config, Refusals: s.pages.Refusals, Distribution: s.distribution,
			Problems: func() (uint64, []config.Problem) { return s.statusProblems() },
		},
		Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Namespace: o.Namespace, Pod: o.PodName,
		Revision: o.Revision, Limits: limits, Metrics: status.NewMetrics(&s.metrics.Writes), Log: s.logs.Scope("status"),
	})
	return nil
}

// runStatus writes status until ctx ends, conditions only with Status.Conditions. Addresses of
// ServiceEntries are written only if they are allocated without a request. It returns nil at once
// without an API server, and an error only for invalid options of an election.
func (s *server) runStatus(ctx context.Context) error {
	if s.status == nil {
		return nil
	}
	addresses := status.Addresses{OfIngress: func(k config.Key) ([]networkingv1.IngressLoadBalancerIngress, bool) {
		current := s.current.Load()
		return s.ingresses.AddressesOf(current, current.Settings.Mesh, k)
	}}
	if a := s.options.Allocation; len(a.Ranges) > 0 && !a.OnlyOnRequest {
		addresses.OfServiceEntry = func(k config.Key) []config.HostAddress { return s.current.Load().AllocatedAddresses(k) }
	}
	return s.status.RunElected(ctx, s.elections, s.options.Status.Conditions, addresses)
}

// notifyStatus makes the status writer look at Problems and addresses again, if there is one.
func (s *server) notifyStatus() {
	if s.applied != nil {
		s.applied.Notify()
	}
}

// config returns an object of the newest snapshot, or nil.
func (s *server) config(k config.Key) *config.Config { return s.current.Load().Config(k) }

// statusProblems returns the Problems of the last analysis, of the current snapshot and of
// s.inViews, and the version of the analyzed snapshot. The current snapshot may be newer than that.
// It omits Problems of objects of remote clusters, whose status is not written, but not of local
// objects with the same Key. Rejections by proxies are not included.
func (s *server) statusProblems() (version uint64, list []config.Problem) {
	version, list = s.analysis.Problems()
	list = slices.Concat(list, s.current.Load().Problems(), s.inViews.Problems())
	return version, slices.DeleteFunc(list, remote.IsRemote)
}

// distribution returns, for each object, how many proxies of this replica it configures and how
// many of those have acknowledged it. The first result is the version of the snapshot.
func (s *server) distribution(objects map[config.Key]struct{}) (uint64, map[config.Key]status.Count) {
	d := s.pusher.Reports().Distribution(objects)
	counts := make(map[config.Key]status.Count, len(d.Reach))
	for k, r := range d.Reach {
		counts[k] = status.Count{Proxies: r.Proxies, Acknowledged: r.Acknowledged}
	}
	return d.Snapshot, counts
}
