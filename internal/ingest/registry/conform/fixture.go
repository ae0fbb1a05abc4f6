package conform

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// T is what the suite needs of a test: *testing.T and *rapid.T both have it.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Subject is a registry under test. It is told of changes in its outside world, and gives all that it says to them.
type Subject func(changes mesh.Batch) mesh.Batch

// Fixture is what the suite must know about a registry.
type Fixture struct {
	// Start starts a registry in whose world the objects are there already. It gives what the registry says at first,
	// Synced included. What it starts it must end by t.Cleanup.
	Start func(t T, objects mesh.Batch) (first mesh.Batch, s Subject)
	// PassesThrough says that events about other things come out as they went in (registry.Converter).
	PassesThrough bool

	// Objects are upserts of things of the registry's world, each with another key: at most 6, for all their orders are
	// tried. Together they make at least one service that has an endpoint.
	Objects mesh.Batch
	// Changed are other versions of some of the Objects. Each makes a difference.
	Changed mesh.Batch
	// Same are other versions of some of the Objects that make no difference.
	Same mesh.Batch
	// Broken are other versions of some of the Objects with a part that cannot be used, and is to be named in a Problem.
	Broken mesh.Batch
	// Shared are upserts of what is not the registry's own and shapes what it says: Namespaces, Settings. Each makes a
	// difference to the Objects.
	Shared mesh.Batch
	// Renamed is one of the Objects under another name.
	Old, Renamed mesh.Event
}

// Converter gives the Start of a registry that is a Converter.
func Converter(fresh func() registry.Converter) func(T, mesh.Batch) (mesh.Batch, Subject) {
	return func(_ T, objects mesh.Batch) (mesh.Batch, Subject) {
		c := fresh()
		first := c.Convert(append(clone(objects), mesh.Event{Op: mesh.Synced, Source: "conform"}))
		return first, c.Convert
	}
}

// Registry gives the Start of a registry that runs by itself. fresh makes one, and a function that changes its world: all
// of a batch at once. The suite knows by a service of its own, changed along with the rest, that the registry has said
// everything.
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
			return without(said, mark.is)
		}
	}
}

// marker is the suite's own service, whose event tells that all before it has been said.
type marker struct{ number int64 }

const markerHost = "marker.conform.test"

func (m *marker) event() mesh.Event {
	s := mesh.Service{ServiceKey: mesh.ServiceKey{Host: markerHost}, Created: time.Unix(m.number, 0).UTC()}
	return mesh.Event{Service: s.Sealed()}
}

func (m *marker) is(e mesh.Event) bool {
	return e.Service != nil && e.Service.Host == markerHost && e.Service.Created.Unix() == m.number
}

// receive gives all events up to and including the batch with the last one.
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

func without(batch mesh.Batch, drop func(mesh.Event) bool) mesh.Batch {
	var kept mesh.Batch
	for _, e := range batch {
		if !drop(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func clone(b mesh.Batch) mesh.Batch { return append(mesh.Batch(nil), b...) }

// deleted is the event that the thing of an upsert is gone. It has no more than the key, as the contract allows.
func deleted(e mesh.Event) mesh.Event {
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

// thing is a comparable name for what an event is about.
type thing struct {
	config   config.Key
	service  ServiceID
	shard    ShardID
	workload WorkloadID
}

func thingOf(e mesh.Event) thing {
	switch {
	case e.Config != nil:
		return thing{config: e.Config.Key}
	case e.Service != nil:
		return thing{service: serviceID(e.Service)}
	case e.Shard != nil:
		return thing{shard: shardID(e.Shard)}
	case e.Workload != nil:
		return thing{workload: workloadID(e.Workload)}
	default:
		return thing{}
	}
}
