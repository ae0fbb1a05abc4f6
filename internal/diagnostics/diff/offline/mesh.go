package offline

import (
	"github.com/meshpilot/meshpilot/internal/ingest/static"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Mesh is the state that a control plane with default settings has of some objects.
type Mesh struct {
	state   *static.Mesh
	objects *Objects
}

// NewMesh returns a Mesh without objects. meshConfig is MeshConfig in YAML, or nil for the
// defaults. It returns an error if that is invalid.
func NewMesh(meshConfig []byte) (*Mesh, error) {
	settings, err := mesh.ParseMeshConfig(meshConfig)
	if err != nil {
		return nil, err
	}
	m := &Mesh{state: static.New(static.Options{}), objects: DecodeObjects("", nil)}
	m.state.Apply(mesh.Event{Source: source, Settings: &mesh.Settings{Mesh: settings}})
	return m, nil
}

// SetObjects replaces all objects of the Mesh, as one change, and returns the resulting snapshot.
// An object that is Broken in next keeps its last version.
func (m *Mesh) SetObjects(next *Objects) *snapshot.Snapshot {
	s, _ := m.state.Apply(m.objects.changesTo(next)...)
	m.objects = next
	return s
}
