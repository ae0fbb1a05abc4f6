package lint

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/static"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// buildSnapshot sets r.snapshot to the snapshot that a control plane would build from the files.
// Invalid objects take part as far as they can be decoded.
func (r *analysisRun) buildSnapshot(settings *mesh.Settings) {
	now := r.options.Now
	batch := mesh.Batch{{Source: "files", Settings: settings}}
	for _, c := range r.runningConfigs() {
		batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: "files", Config: c})
	}
	m := static.New(static.Options{Now: func() time.Time { return now }, Recovery: r.recovery})
	r.snapshot, _ = m.Apply(batch...)
}
