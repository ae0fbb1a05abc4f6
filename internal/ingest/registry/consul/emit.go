package consul

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// appendDifferences appends the events for the difference between two conversions of an object, for
// shards, services and Problems, in that order.
func (c *Converter) appendDifferences(out mesh.Batch, key config.Key, old, now *converted) mesh.Batch {
	event := func(op mesh.Op) mesh.Event { return mesh.Event{Op: op, Source: c.source} }
	compareShards(old.shards, now.shards, func(op mesh.Op, s *mesh.Shard) {
		e := event(op)
		if e.Shard = s; op == mesh.Delete {
			e.Shard = &mesh.Shard{Service: s.Service, Key: s.Key}
		}
		out = append(out, e)
	})
	compareServices(old.services, now.services, func(op mesh.Op, s *mesh.Service) {
		e := event(op)
		if e.Service = s; op == mesh.Delete {
			e.Service = &mesh.Service{
				ServiceKey: s.ServiceKey, Provider: s.Provider, Cluster: s.Cluster, Name: s.Name, From: s.From,
			}
		}
		out = append(out, e)
	})
	if !slices.Equal(old.problems, now.problems) {
		e := event(mesh.Upsert)
		e.Problems = &mesh.Problems{Scope: key.String(), List: now.problems}
		out = append(out, e)
	}
	return out
}

func compareShards(old, now []*mesh.Shard, emit func(mesh.Op, *mesh.Shard)) {
	compareSorted(old, now,
		func(a, b *mesh.Shard) int { return cmp.Compare(a.Service.Host, b.Service.Host) },
		func(a, b *mesh.Shard) bool { return a.Hash == b.Hash }, emit)
}

func compareServices(old, now []*mesh.Service, emit func(mesh.Op, *mesh.Service)) {
	compareSorted(old, now,
		func(a, b *mesh.Service) int { return cmp.Compare(a.Host, b.Host) },
		func(a, b *mesh.Service) bool { return a.Hash == b.Hash }, emit)
}

// compareSorted calls emit with Delete for each element that is only in old, and with Upsert for
// each new or changed one. Both lists must be sorted by order, without duplicates.
func compareSorted[T any](old, now []*T, order func(a, b *T) int, equal func(a, b *T) bool, emit func(mesh.Op, *T)) {
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && order(old[0], now[0]) < 0:
			emit(mesh.Delete, old[0])
			old = old[1:]
		case len(old) == 0 || order(old[0], now[0]) > 0:
			emit(mesh.Upsert, now[0])
			now = now[1:]
		default:
			if !equal(old[0], now[0]) {
				emit(mesh.Upsert, now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
}
