// Package source defines the interface of config sources: a component that reads the objects that
// users write.
//
// The inputs are files, an API server or another control plane. The outputs are batches of events
// about objects. Sources (one folder each) do not import each other, nor internal/snapshot or
// internal/xds. Start reading with [Source].
package source

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Source is a source of objects.
type Source interface {
	// Name identifies the source in logs, metrics and debug pages: "file:/etc/istio/config".
	Name() string
	// Run sends batches of events until the context ends: the current state, then Synced, then
	// changes. On errors it retries and sends only Problems, so the last good state remains in use.
	// It returns nil when the context ends.
	Run(ctx context.Context, out chan<- mesh.Batch) error
}
