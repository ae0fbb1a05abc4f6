package discovery

import (
	"context"
	"strings"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/external"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// manageExternalClusters manages the remote clusters that have no control plane of their own and
// select this one (Remote.External), until ctx ends. It publishes the mesh roots there and keeps the
// CA bundle of their webhook configurations up to date.
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
		o.Tasks = append(o.Tasks, external.Task{
			Name: "publish the roots",
			Run: func(ctx context.Context, id mesh.ClusterID, client *kube.Client) error {
				s.authority.PublishRoots(ctx, leader.RootCertificates+"-"+strings.ToLower(string(id)), client.Kubernetes)
				return nil
			},
		})
	}
	if s.webhooks != nil && s.webhooks.KeepsRemoteConfigurations() {
		o.Tasks = append(o.Tasks, external.Task{
			Name: "maintain the webhook configurations",
			Run: func(ctx context.Context, id mesh.ClusterID, client *kube.Client) error {
				return s.webhooks.KeepRemoteConfigurations(ctx, string(id), client.Kubernetes)
			},
		})
	}
	s.clusters.Each(ctx, external.New(o).Manage)
}
