package status

import (
	"context"

	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Settings configure the writes to the status of objects of an API server.
type Settings struct {
	// Conditions writes the condition Reconciled (default true; PILOT_ENABLE_STATUS).
	Conditions bool
	// Limits limit the writes (PILOT_STATUS_QPS, PILOT_STATUS_BURST, PILOT_STATUS_MAX_WORKERS and
	// PILOT_STATUS_UPDATE_INTERVAL).
	Limits Limits
}

// Addresses are the sources of addresses that are written into the status of objects.
type Addresses struct {
	// OfServiceEntry returns the allocated addresses of a ServiceEntry's hosts. If nil, none are
	// written.
	OfServiceEntry func(config.Key) []config.HostAddress
	// OfIngress returns the addresses of an Ingress. The second result is false if they are not
	// known, or if the Ingress is not served by this mesh; then its status is not changed.
	OfIngress func(config.Key) ([]networkingv1.IngressLoadBalancerIngress, bool)
}

// RunElected writes status while this replica is the leader, and otherwise reports its own counts
// to the leader, until ctx ends. Each kind of status has its own election. Conditions and reports
// are written only if conditions is true, addresses of ServiceEntries only if OfServiceEntry is
// set, and addresses of Ingresses always. It returns an error only for invalid options of an
// election.
func (w *Writer) RunElected(ctx context.Context, elections *leader.Elections, conditions bool,
	addresses Addresses) error {
	group, ctx := errgroup.WithContext(ctx)
	elect := func(task string, write func(context.Context)) {
		group.Go(func() error { return elections.Run(ctx, task, write) })
	}
	if conditions {
		group.Go(func() error { w.Run(ctx); return nil })
		elect(leader.Status, w.Lead)
		if !w.isDefault() {
			elect(leader.Status+"-"+w.Revision, w.LeadRevision)
		}
	}
	if addresses.OfServiceEntry != nil {
		elect(leader.Addresses, func(ctx context.Context) { w.LeadAddresses(ctx, addresses.OfServiceEntry) })
	}
	elect(leader.Ingress, func(ctx context.Context) { w.LeadIngresses(ctx, addresses.OfIngress) })
	return group.Wait()
}
