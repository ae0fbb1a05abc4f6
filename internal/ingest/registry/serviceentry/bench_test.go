package serviceentry_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// benchWorld is 1,000 ServiceEntries of 10 endpoints each, and a WorkloadEntry for each.
func benchWorld(b *testing.B) mesh.Batch {
	entry, workload := object(b, staticEntry), object(b, workloadEntry)
	var batch mesh.Batch
	for i := range 1000 {
		e := *withSpec(b, entry, func(s *networking.ServiceEntry) {
			s.Hosts = []string{fmt.Sprintf("db-%d.example.com", i)}
			for len(s.Endpoints) < 10 {
				s.Endpoints = append(s.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("192.0.%d.%d", i%250, len(s.Endpoints))})
			}
		})
		w := *workload
		e.Name, w.Name = fmt.Sprintf("db-%d", i), fmt.Sprintf("vm-%d", i)
		batch = append(batch, upserts(&e, &w)...)
	}
	return batch
}

func BenchmarkConvertAll(b *testing.B) {
	world := benchWorld(b)
	b.ReportAllocs()
	for b.Loop() {
		if out := serviceentry.New(serviceentry.Options{SelectPods: true}).Convert(world); len(out) != 3000 {
			b.Fatalf("%d events", len(out))
		}
	}
}

func BenchmarkWorkloadEntry(b *testing.B) {
	c := serviceentry.New(serviceentry.Options{SelectPods: true})
	c.Convert(benchWorld(b))
	one := object(b, workloadEntry)
	two := withSpec(b, one, func(w *networking.WorkloadEntry) { w.Address = "192.0.2.9" })
	versions := [2]mesh.Batch{upserts(one), upserts(two)}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if out := c.Convert(versions[i%2]); len(out) != 1 {
			b.Fatalf("%d events, want 1", len(out))
		}
	}
}
