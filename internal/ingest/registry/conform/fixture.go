package conform

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// T is the part of *testing.T and *rapid.T that the suite uses.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Subject applies changes to the input of a registry under test, and returns the events that the
// registry emits for them.
type Subject func(changes mesh.Batch) mesh.Batch

// Fixture describes a registry to the suite.
type Fixture struct {
	// Start starts a registry whose input already contains the objects. It returns the initial
	// events, including Synced. It must stop what it starts in t.Cleanup.
	Start func(t T, objects mesh.Batch) (first mesh.Batch, s Subject)
	// PassesThrough is set if events about other entities pass through unchanged
	// (registry.Converter).
	PassesThrough bool

	// Objects are upserts of input objects with distinct keys: at most 6, because all their orders
	// are tried. Together they must produce at least one service with an endpoint.
	Objects mesh.Batch
	// Changed are other versions of some Objects. Each must change the output.
	Changed mesh.Batch
	// Same are other versions of some Objects that do not change the output.
	Same mesh.Batch
	// Broken are other versions of some Objects with an invalid part, which a Problem must name.
	Broken mesh.Batch
	// Shared are upserts of entities that the registry reads without owning them: Namespaces,
	// Settings. Each must change the output for the Objects.
	Shared mesh.Batch
	// Large returns upserts of objects that result in one service with n endpoints, of which
	// Large(n-1) lacks the last one. If nil, large services are not tested.
	Large func(n int) mesh.Batch
	// Renamed is the object Old, which is one of Objects, under another name.
	Old, Renamed mesh.Event
}

// Converter returns the Start function of a registry that is a Converter. Each start converts the
// objects, followed by Synced, by a new Converter of fresh.
func Converter(fresh func() registry.Converter) func(T, mesh.Batch) (mesh.Batch, Subject) {
	return func(_ T, objects mesh.Batch) (mesh.Batch, Subject) {
		c := fresh()
		first := c.Convert(append(clone(objects), mesh.Event{Op: mesh.Synced, Source: "conform"}))
		return first, c.Convert
	}
}

// Registry returns the Start function of a registry that runs by itself. fresh returns a new
// registry and a function that changes its input, all of a batch at once. To detect that the
// registry has emitted everything, the suite adds a service of its own to each change and waits for
// it. The test fails if Run returns an error after its context ended.
func Registry(fresh func() (r registry.Registry, change func(mesh.Batch))) func(T, mesh.Batch) (mesh.Batch, Subject) {
	return func(t T, objects mesh.Batch) (mesh.Batch, Subject) {
		r, change := fresh()
		change(objects)
		ctx, cancel := context.WithCancel(context.Background())
		out, done := make(chan mesh.Batch), make(chan error, 1)
		go func() { done <- r.Run(ctx, out) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Fatalf("Run after the end of its context: %v", err)
			}
		})
		mark := marker{}
		first := receive(t, out, func(e mesh.Event) bool { return e.Op == mesh.Synced })
		return first, func(changes mesh.Batch) mesh.Batch {
			mark.number++
			change(append(clone(changes), mark.event()))
			said := receive(t, out, mark.is)
			return withoutEvents(said, mark.is)
		}
	}
}

// marker is the suite's own service. Its event shows that all earlier changes have been emitted.
type marker struct{ number int64 }

const markerHost = "marker.conform.test"

// event returns the upsert of the marker's service. Its creation time is the marker's number in
// seconds.
func (m *marker) event() mesh.Event {
	s := mesh.Service{ServiceKey: mesh.ServiceKey{Host: markerHost}, Created: time.Unix(m.number, 0).UTC()}
	return mesh.Event{Service: s.Sealed()}
}

// is reports whether e is about the marker's service with its current number.
func (m *marker) is(e mesh.Event) bool {
	return e.Service != nil && e.Service.Host == markerHost && e.Service.Created.Unix() == m.number
}

// receive returns all events up to and including the batch that contains the first event for which
// last returns true. It fails the test if that does not arrive within 10 seconds.
func receive(t T, out <-chan mesh.Batch, last func(mesh.Event) bool) mesh.Batch {
	t.Helper()
	deadline := time.After(10 * time.Second)
	var all mesh.Batch
	for {
		select {
		case batch := <-out:
			all = append(all, batch...)
			for _, e := range batch {
				if last(e) {
					return all
				}
			}
		case <-deadline:
			t.Fatalf("the registry did not say everything within 10s")
			return nil
		}
	}
}

// withoutEvents returns the events for which drop returns false.
func withoutEvents(batch mesh.Batch, drop func(mesh.Event) bool) mesh.Batch {
	var kept mesh.Batch
	for _, e := range batch {
		if !drop(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// clone returns a copy of b; the objects in its events are shared.
func clone(b mesh.Batch) mesh.Batch { return append(mesh.Batch(nil), b...) }

// deleteEvent returns the event for the deletion of an upserted object, service, shard or workload.
// As the contract allows, it contains only the source and the fields that identify the entity.
func deleteEvent(e mesh.Event) mesh.Event {
	d := mesh.Event{Op: mesh.Delete, Source: e.Source}
	switch {
	case e.Config != nil:
		d.Config = &config.Config{Meta: config.Meta{Key: e.Config.Key}}
	case e.Service != nil:
		s := e.Service
		d.Service = &mesh.Service{ServiceKey: s.ServiceKey, Provider: s.Provider, Cluster: s.Cluster, From: s.From}
	case e.Shard != nil:
		d.Shard = &mesh.Shard{Service: e.Shard.Service, Key: e.Shard.Key}
	case e.Workload != nil:
		w := e.Workload
		d.Workload = &mesh.Workload{Provider: w.Provider, Cluster: w.Cluster, Namespace: w.Namespace, Name: w.Name}
	}
	return d
}

// entityID is a comparable identifier of the entity that an event is about.
type entityID struct {
	config   config.Key
	service  ServiceID
	shard    ShardID
	workload WorkloadID
}

// entityOf returns the ID of the config object, service, shard or workload in an event, or the zero
// ID for an event without one.
func entityOf(e mesh.Event) entityID {
	switch {
	case e.Config != nil:
		return entityID{config: e.Config.Key}
	case e.Service != nil:
		return entityID{service: serviceID(e.Service)}
	case e.Shard != nil:
		return entityID{shard: shardID(e.Shard)}
	case e.Workload != nil:
		return entityID{workload: workloadID(e.Workload)}
	default:
		return entityID{}
	}
}
