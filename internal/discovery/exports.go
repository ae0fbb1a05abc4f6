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

// Exports are to be made at leisure: each takes two requests.
const (
	exportQPS   = 20
	exportBurst = 40
)

// newExporter makes what exports the cluster's services, nil if that is not wanted (Registry.Export).
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

// exportable gives the Services of the cluster that are not cluster-local. Other names (ExternalName) cannot be exported.
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

// runExports exports services while this replica leads.
func (s *server) runExports(ctx context.Context) error {
	if s.exporter == nil {
		return nil
	}
	return s.lead(ctx, leader.ServiceExports, s.exporter.Run)
}

// lookAtExports has the exporter look again if a snapshot may have other services.
func (s *server) lookAtExports(d snapshot.Delta) {
	if s.exporter != nil && (d.All || len(d.Services) > 0) {
		s.exporter.Trigger()
	}
}
