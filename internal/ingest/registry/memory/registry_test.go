package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/memory"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func service(host string, ports ...uint32) mesh.Event {
	s := mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(host)}, Provider: mesh.Memory, Resolution: mesh.Static}
	for _, p := range ports {
		s.Ports = append(s.Ports, mesh.Port{Name: "http", Number: p, Protocol: mesh.HTTP, Target: p})
	}
	return mesh.Event{Service: &s}
}

func shard(host string, addresses ...string) mesh.Event {
	s := mesh.Shard{Service: mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(host)}, Key: mesh.ShardKey{Provider: mesh.Memory}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, &mesh.Endpoint{Address: a, Port: 8080, ServicePort: "http"})
	}
	return mesh.Event{Shard: &s}
}

func workload(name string, ready bool) mesh.Event {
	return mesh.Event{Workload: &mesh.Workload{Provider: mesh.Memory, Namespace: "default", Name: name, Addresses: []string{"10.0.0.9"}, Ready: ready}}
}

func TestConformance(t *testing.T) {
	conform.Run(t, conform.Fixture{
		Start: conform.Registry(func() (registry.Registry, func(mesh.Batch)) {
			r := memory.New("memory")
			return r, func(b mesh.Batch) { r.Apply(b...) }
		}),
		Objects: mesh.Batch{service("a.test", 80), shard("a.test", "10.0.0.1", "10.0.0.2"), service("b.test", 80), workload("w", true)},
		Changed: mesh.Batch{service("a.test", 80, 81), shard("a.test", "10.0.0.1"), workload("w", false)},
		Same:    mesh.Batch{service("a.test", 80), shard("a.test", "10.0.0.1", "10.0.0.2"), workload("w", true)},
		Old:     service("b.test", 80),
		Renamed: service("c.test", 80),
	})
}

// run runs the registry until the test's end, and gives the next batch that it says.
func run(t *testing.T, r *memory.Registry) (next func() mesh.Batch) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan mesh.Batch), make(chan error, 1)
	go func() { done <- r.Run(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func() mesh.Batch {
		t.Helper()
		select {
		case b := <-out:
			return b
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is said for 10s")
			return nil
		}
	}
}

// The registry goes away and comes back: the second run says all of what is there by then.
func TestSecondRun(t *testing.T) {
	r := memory.New("memory")
	r.SetService(*service("a.test", 80).Service)
	first := run(t, r)
	first()
	r.SetService(*service("b.test", 80).Service)
	first()
	r.DeleteService(mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: "default", Host: "a.test"}})
	gone := first()
	if len(gone) != 1 || gone[0].Op != mesh.Delete || gone[0].Service.Host != "a.test" {
		t.Errorf("the deletion of a.test is said as %+v", gone)
	}
	again := conform.Fold(run(t, r)())
	want := conform.Fold(mesh.Batch{{Service: service("b.test", 80).Service.Sealed()}, {Op: mesh.Synced}})
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("second run (-want +got):\n%s", diff)
	}
}

// A reader that takes nothing for a while gets one batch with the newest state.
func TestSlowReader(t *testing.T) {
	r := memory.New("memory")
	next := run(t, r)
	next()
	r.SetShard(*shard("a.test", "10.0.0.1").Shard)
	held := next() // Run waits for the next change now, or has it already
	for _, address := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		r.SetShard(*shard("a.test", address).Shard)
	}
	batches := 0
	state := conform.Fold(held)
	for {
		batches++
		if err := state.Apply(next()); err != nil {
			t.Fatal(err)
		}
		for _, s := range state.Shards {
			if s.Endpoints[0].Address == "10.0.0.4" {
				if batches > 2 {
					t.Errorf("%d batches for three changes that nobody waited for", batches)
				}
				return
			}
		}
	}
}

// Several changes that are made as one are said as one.
func TestApplyIsOneBatch(t *testing.T) {
	r := memory.New("memory")
	next := run(t, r)
	next()
	r.Apply(service("a.test", 80), shard("a.test", "10.0.0.1"), workload("w", true))
	together := next()
	if len(together) != 3 {
		t.Errorf("%d of 3 changes in the batch", len(together))
	}
	r.Apply(
		mesh.Event{Op: mesh.Delete, Workload: workload("w", true).Workload},
		mesh.Event{Op: mesh.Delete, Shard: shard("a.test").Shard},
		mesh.Event{Op: mesh.Synced}) // not the registry's: passed over
	state := conform.Fold(together, next())
	if len(state.Services) != 1 || len(state.Shards) != 0 || len(state.Workloads) != 0 {
		t.Errorf("after the deletion of the shard and the workload: %+v", state)
	}
}
