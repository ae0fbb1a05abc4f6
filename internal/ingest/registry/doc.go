// Package registry says what a service registry is: something that turns objects of a platform into services, endpoints
// and workloads.
//
// In: batches of events about objects. Out: batches in which those objects have become services, shards and workloads.
// Law: registries (one folder each) do not import each other, nor the snapshot or xDS rooms.
//
// Start with [Converter]. To add a registry: a folder with a Converter (or a Registry of its own where the platform is not
// made of objects), a test that runs registry/conform on it, a line in discovery's list of parts.
package registry

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry is a place where services come from.
type Registry interface {
	// Name tells it from the others in logs, metrics and the debug pages: "Kubernetes/cluster1".
	Name() string
	// Run sends batches of events until the context ends: first everything that is there, then Synced, then changes.
	// On errors it keeps trying and sends nothing: what was last said stays true. It returns nil when the context ends.
	Run(ctx context.Context, out chan<- mesh.Batch) error
}

// Converter is the pure part of a registry whose input is objects: Kubernetes' Services and Pods, ServiceEntries.
// It remembers the objects that it needs to convert others, and is used by one goroutine.
type Converter interface {
	// Convert takes the events about objects that it knows out of the batch and puts what follows from them in their
	// place: upserts and deletes of services, shards and workloads, and Problems of the object. Other events pass through
	// in order. The same objects in any order of arrival end in the same services, shards and workloads.
	// A panic over one object costs that object only: see Guard.
	Convert(batch mesh.Batch) mesh.Batch
}
