// Package source says what a config source is: a place where the objects that users write come from.
//
// In: files, an API server, another control plane. Out: batches of events about objects.
// Law: sources (one folder each) do not import each other, nor the snapshot or xDS rooms.
package source

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Source is a place where objects come from.
type Source interface {
	// Name tells it from the others in logs, metrics and debug pages: "file:/etc/istio/config".
	Name() string
	// Run sends batches of events until the context ends: first everything that is there, then Synced, then changes.
	// On errors it keeps trying and sends nothing but Problems: the last good state stays. It returns nil when the context ends.
	Run(ctx context.Context, out chan<- mesh.Batch) error
}
