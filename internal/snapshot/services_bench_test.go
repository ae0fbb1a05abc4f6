package snapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// entryEvents returns the events of a ServiceEntry that lists its endpoints and has no address. i
// selects its host, and version the parts that change.
func entryEvents(i, version int) []mesh.Event {
	key := mesh.ServiceKey{Namespace: fmt.Sprintf("ns-%d", i%20), Host: mesh.Hostname(fmt.Sprintf("h%d.example.com", i))}
	from := config.Key{Kind: api.ServiceEntry, Namespace: key.Namespace, Name: fmt.Sprintf("h%d", i)}
	service := mesh.Service{
		ServiceKey: key, Provider: mesh.External, Cluster: "Kubernetes", Name: from.Name, Resolution: mesh.Static, Allocates: true,
		Ports:   []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: uint32(8000 + version)}},
		Created: time.Unix(int64(1000+i), 0).UTC(), From: from,
	}
	shard := mesh.Shard{Service: key, Key: mesh.ShardKey{Provider: mesh.External, Cluster: "Kubernetes", Object: from}}
	for e := range 4 {
		shard.Endpoints = append(shard.Endpoints, &mesh.Endpoint{
			Address: fmt.Sprintf("10.%d.%d.%d", i/250, i%250, e), Port: uint32(8000 + version), ServicePort: "http", Namespace: key.Namespace,
		})
	}
	return []mesh.Event{{Service: service.Sealed()}, {Shard: shard.Sealed()}}
}

// BenchmarkServiceEntry edits one of many ServiceEntries.
func BenchmarkServiceEntry(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			builder := NewBuilder(Options{Cluster: "Kubernetes", Allocation: DefaultAllocation()})
			var all []mesh.Event
			for i := range n {
				all = append(all, entryEvents(i, 0)...)
			}
			builder.Apply(all...)
			versions := [2][]mesh.Event{entryEvents(n/2, 1), entryEvents(n/2, 0)}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, d := builder.Apply(versions[i%2]...); len(d.Services) != 1 || len(d.Endpoints) != 1 {
					b.Fatalf("%d services and %d endpoint sets in the delta, want one of each", len(d.Services), len(d.Endpoints))
				}
				i++
			}
		})
	}
}

// BenchmarkAllServiceEntries applies 10,000 ServiceEntries at once.
func BenchmarkAllServiceEntries(b *testing.B) {
	var all []mesh.Event
	for i := range 10000 {
		all = append(all, entryEvents(i, 0)...)
	}
	b.ReportAllocs()
	for b.Loop() {
		NewBuilder(Options{Cluster: "Kubernetes", Allocation: DefaultAllocation()}).Apply(all...)
	}
}
