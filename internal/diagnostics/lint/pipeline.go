package lint

import (
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"

	"log/slog"
	"time"
)

// clusterName is the name of the cluster that files describe.
const clusterName = "Kubernetes"

// buildSnapshot builds the snapshot that a control plane would build from the files. It has the
// converters of internal/discovery with their default options. Objects with errors take part.
func (r *analysisRun) buildSnapshot(settings *mesh.Settings) {
	now := r.options.Now
	batch := mesh.Batch{{Source: "files", Settings: settings}}
	for _, c := range r.runningConfigs() {
		batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: "files", Config: c})
	}
	r.snapshot = ingest.Build(ingest.Options{
		Builder: snapshot.NewBuilder(snapshot.Options{
			Cluster: clusterName, Allocation: snapshot.DefaultAllocation(), Recovery: r.recovery,
		}),
		Filters: []registry.Converter{namespaces.New(namespaces.Options{Recovery: r.recovery})},
		Converters: []registry.Converter{
			ingress.New(ingress.Options{Recovery: r.recovery}),
			gatewayapi.New(gatewayapi.Options{Recovery: r.recovery, Now: func() time.Time { return now }}),
			serviceentry.New(serviceentry.Options{Cluster: clusterName, SelectPods: true, Recovery: r.recovery}),
			kube.New(kube.Options{
				Cluster: clusterName, EndpointsFromPods: true, SelectWorkloadEntries: true, DiscoverGateways: true, Recovery: r.recovery,
			}),
		},
		Recovery: r.recovery, Log: slog.New(slog.DiscardHandler),
	}, batch)
}
