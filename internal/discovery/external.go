package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/kube/external"
)

// manageExternalClusters manages the remote clusters that have no control plane of their own and
// select this one, until ctx ends. It publishes the mesh roots there and keeps the CA bundle of
// their webhook configurations up to date. It waits for the authority first. It returns at once if
// Remote.External is not set or remote clusters are not read.
func (s *server) manageExternalClusters(ctx context.Context) {
	if s.clusters == nil || !s.options.Remote.External {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-s.authority.Opened():
	}
	o := external.Options{Namespace: s.options.Namespace, ClusterID: s.options.ClusterID, Log: s.log}
	if s.authority.PublishesRoots() {
		o.Tasks = append(o.Tasks, external.Task{Name: "publish the roots", Run: s.authority.PublishRemoteRoots})
	}
	if s.webhooks != nil && s.webhooks.KeepsRemoteConfigurations() {
		keep := external.Task{Name: "maintain the webhook configurations", Run: s.webhooks.KeepRemoteConfigurations}
		o.Tasks = append(o.Tasks, keep)
	}
	s.clusters.Each(ctx, external.New(o).Manage)
}
