package offline

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Mesh is the state that a control plane with default settings has of some objects.
type Mesh struct {
	builder    *snapshot.Builder
	converters []registry.Converter
	objects    *Objects
}

// NewMesh returns a Mesh without objects. meshConfig is MeshConfig in YAML, or nil for the defaults.
// It returns an error if that is invalid.
func NewMesh(meshConfig []byte) (*Mesh, error) {
	settings, err := mesh.ParseMeshConfig(meshConfig)
	if err != nil {
		return nil, err
	}
	m := &Mesh{
		builder: snapshot.NewBuilder(snapshot.Options{
			Domain: "cluster.local", Cluster: "Kubernetes", Allocation: snapshot.DefaultAllocation(),
		}),
		converters: []registry.Converter{
			namespaces.New(namespaces.Options{}),
			ingress.New(ingress.Options{}),
			gatewayapi.New(gatewayapi.Options{}),
			serviceentry.New(serviceentry.Options{SelectPods: true}),
			kube.New(kube.Options{EndpointsFromPods: true, SelectWorkloadEntries: true, DiscoverGateways: true}),
		},
		objects: DecodeObjects("", nil),
	}
	m.apply(mesh.Batch{{Source: source, Settings: &mesh.Settings{Mesh: settings}}})
	return m, nil
}

// SetObjects replaces all objects of the Mesh, as one change, and returns the resulting snapshot.
func (m *Mesh) SetObjects(next *Objects) *snapshot.Snapshot {
	s := m.apply(m.objects.changesTo(next))
	m.objects = next
	return s
}

func (m *Mesh) apply(batch mesh.Batch) *snapshot.Snapshot {
	for _, c := range m.converters {
		batch = c.Convert(batch)
	}
	s, _ := m.builder.Apply(batch...)
	return s
}
