package discovery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/kube/export"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// newExporter sets s.exporter, the exporter of the cluster's Services. It does nothing if exports
// are disabled (Registry.Export) or services are not read from an API server. It returns the error
// of export.New.
func (s *server) newExporter() (err error) {
	if s.client == nil || !s.options.ServicesFromCluster() || !s.options.Registry.Export {
		return nil
	}
	services := func() []types.NamespacedName {
		return s.current.Load().ExportableServices(mesh.ClusterID(s.options.ClusterID))
	}
	s.exporter, err = export.New(export.Options{Client: s.client, Log: s.logs.Scope("serviceexport"), Services: services})
	return err
}

// runExports creates missing ServiceExports of the cluster's services while this replica leads,
// until ctx ends, and then returns nil. It returns nil at once if there is no exporter, and an
// error only for invalid options of the election.
func (s *server) runExports(ctx context.Context) error {
	if s.exporter == nil {
		return nil
	}
	return s.elections.Run(ctx, leader.ServiceExports, s.exporter.Run)
}

// triggerExports makes the exporter, if there is one, read the services again if d.All is set or d
// has changed services.
func (s *server) triggerExports(d snapshot.Delta) {
	if s.exporter != nil && (d.All || len(d.Services) > 0) {
		s.exporter.Trigger()
	}
}
