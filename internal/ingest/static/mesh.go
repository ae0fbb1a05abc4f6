package static

import (
	"log/slog"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Cluster is the name of the cluster that the objects of a Mesh describe.
const Cluster = "Kubernetes"

// Options are the settings of a Mesh. They default to a control plane without flags. The zero value
// is valid.
type Options struct {
	Features snapshot.Features
	// InferencePools converts InferencePools to services (default false).
	InferencePools bool
	// Now is the clock that the expiry of certificates is compared with. If nil, it is not checked.
	Now func() time.Time
	// Recovery recovers panics. If nil, converters panic.
	Recovery *recovery.Recorder
}

// Mesh is the state that a control plane has of some objects. It must be used by one goroutine at a
// time.
type Mesh struct {
	builder  *snapshot.Builder
	applier  *ingest.Applier
	gateways *gatewayapi.Converter
}

// New returns a Mesh without objects, with the filters and converters of a control plane without
// flags. Pods become endpoints without EndpointSlices, because no controller creates those. If
// o.Now is nil, the expiry of certificates is not checked.
func New(o Options) *Mesh {
	m := &Mesh{
		builder: snapshot.NewBuilder(snapshot.Options{
			Cluster: Cluster, Allocation: snapshot.DefaultAllocation(), Features: o.Features, Recovery: o.Recovery,
		}),
		gateways: gatewayapi.New(gatewayapi.Options{Now: o.Now, InferencePools: o.InferencePools,
			Recovery: o.Recovery}),
	}
	m.applier = ingest.NewApplier(ingest.Options{
		Builder: m.builder,
		Filters: []registry.Converter{namespaces.New(namespaces.Options{Recovery: o.Recovery})},
		Converters: []registry.Converter{
			ingress.New(ingress.Options{Recovery: o.Recovery}),
			m.gateways,
			serviceentry.New(serviceentry.Options{SelectPods: true, Recovery: o.Recovery}),
			kube.New(kube.Options{
				EndpointsFromPods: true, SelectWorkloadEntries: true, DiscoverGateways: true, Recovery: o.Recovery,
			}),
		},
		Recovery: o.Recovery, Log: slog.New(slog.DiscardHandler),
	})
	return m
}

// Apply applies events as one change. It returns the resulting snapshot, the previous one if
// nothing changed, and the difference between the two.
func (m *Mesh) Apply(events ...mesh.Event) (*snapshot.Snapshot, snapshot.Delta) {
	return m.applier.Apply(events)
}

// Snapshot returns the present snapshot.
func (m *Mesh) Snapshot() *snapshot.Snapshot { return m.builder.Current() }

// GatewayStatuses returns the desired statuses of the objects of the Gateway API.
func (m *Mesh) GatewayStatuses() *gatewayapi.Statuses { return m.gateways.Statuses() }
