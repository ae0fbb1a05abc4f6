package ingest

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Build returns the snapshot of a complete batch. The batch passes through the filters and
// converters of the Options, as in Run, and is applied to their Builder. Feeds, Publish and the other
// callbacks are not used.
func Build(o Options, batch mesh.Batch) *snapshot.Snapshot {
	p := newPipeline(o)
	s, _ := o.Builder.Apply(p.convert(batch)...)
	return s
}
