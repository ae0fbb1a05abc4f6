// Package registry defines the interface of service registries: a component that converts the
// objects of a platform to services, endpoints and workloads.
//
// The inputs are batches of events about objects. The outputs are batches in which those objects
// are replaced by services, shards and workloads. Registries (one folder each) do not import each
// other, nor internal/snapshot (except its map, snapshot/cow) or internal/xds.
//
// Start reading with [Converter]. To add a registry, write a folder with a Converter, or with a
// [Registry] if the platform is not made of objects; a test that runs registry/conform on it; and a
// line in the list of parts of internal/discovery. Package emit sends only differences, [Guard]
// confines panics to one object, and [Index] finds the objects that an event affects.
package registry

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry is a source of services that runs by itself.
type Registry interface {
	// Name identifies the registry in logs, metrics and debug pages: "Kubernetes/cluster1".
	Name() string
	// Run sends batches of events until the context ends: the current state, then Synced, then
	// changes. On errors it retries and sends nothing, so the last state remains in use. It returns
	// nil when the context ends.
	Run(ctx context.Context, out chan<- mesh.Batch) error
}

// Converter converts objects to services, shards and workloads: Kubernetes Services and Pods, or
// ServiceEntries. It keeps the objects that it needs to convert others. It must be used by one
// goroutine at a time.
type Converter interface {
	// Convert replaces the events about kinds that it handles with their results: upserts and
	// deletes of services, shards and workloads, and Problems of the objects. Other events pass
	// through in order. The final result depends only on the set of objects, not on the order of
	// events. A panic affects only the object that causes it: see Guard.
	Convert(batch mesh.Batch) mesh.Batch
}
