package ingest

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Applier is the pipeline of Run without feeds: its caller sends the batches and waits for each
// snapshot. It must be used by one goroutine at a time.
type Applier struct{ pipeline *pipeline }

// NewApplier returns an Applier with the filters, converters, Builder and Recovery of o. Feeds,
// Publish and the other callbacks are not used.
func NewApplier(o Options) *Applier { return &Applier{newPipeline(o)} }

// Apply passes a batch through the filters and converters and applies the result to the Builder. It
// returns the resulting snapshot, which is the previous one if nothing changed, and the difference
// between the two. It decides no precedence between sources and logs no Problems.
func (a *Applier) Apply(batch mesh.Batch) (*snapshot.Snapshot, snapshot.Delta) {
	return a.pipeline.Builder.Apply(a.pipeline.convert(batch)...)
}
