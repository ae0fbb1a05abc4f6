package discovery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/export"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Limits for requests that create exports. Each export takes two requests, and none is urgent.
const (
	exportQPS   = 20
	exportBurst = 40
)

// newExporter returns the exporter of the cluster's Services. It returns nil if exports are
// disabled (Registry.Export) or services are not read from an API server.
func (s *server) newExporter() (*export.Exporter, error) {
	if s.client == nil || !s.options.fromCluster() || !s.options.Registry.Export {
		return nil, nil
	}
	config := rest.CopyConfig(s.client.Config)
	config.QPS, config.Burst, config.RateLimiter = exportQPS, exportBurst, nil
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, err
	}
	return export.New(export.Options{Client: client, Services: s.exportable, Log: s.logs.Scope("serviceexport")}), nil
}

// exportable returns the cluster's own Services that may be exported: all except cluster-local
// Services and the type ExternalName.
func (s *server) exportable() []types.NamespacedName {
	current := s.current.Load()
	var list []types.NamespacedName
	for _, svc := range current.Services() {
		own := svc.From.Kind == api.Service && svc.Cluster == mesh.ClusterID(s.options.ClusterID)
		if own && svc.Resolution != mesh.Alias && !current.Settings.IsClusterLocal(svc.Host) {
			list = append(list, types.NamespacedName{Namespace: svc.From.Namespace, Name: svc.From.Name})
		}
	}
	return list
}

// runExports exports services while this replica is the leader, until ctx ends.
func (s *server) runExports(ctx context.Context) error {
	if s.exporter == nil {
		return nil
	}
	return s.elections.Run(ctx, leader.ServiceExports, s.exporter.Run)
}

// lookAtExports triggers the exporter if a delta may have changed services.
func (s *server) lookAtExports(d snapshot.Delta) {
	if s.exporter != nil && (d.All || len(d.Services) > 0) {
		s.exporter.Trigger()
	}
}
