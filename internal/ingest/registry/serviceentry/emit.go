package serviceentry

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emitDifferences appends the events for the difference between two conversions of an object, for
// shards, services, the workload and Problems, in that order.
func (c *Converter) emitDifferences(out mesh.Batch, key config.Key, old, now *converted) mesh.Batch {
	event := func(op mesh.Op) mesh.Event { return mesh.Event{Op: op, Source: c.source} }
	diffByHost(old.shards, now.shards, hostOfShard, sameShard, func(op mesh.Op, s *mesh.Shard) {
		e := event(op)
		if e.Shard = s; op == mesh.Delete {
			e.Shard = &mesh.Shard{Service: s.Service, Key: s.Key}
		}
		out = append(out, e)
	})
	diffByHost(old.services, now.services, hostOfService, sameService, func(op mesh.Op, s *mesh.Service) {
		e := event(op)
		if e.Service = s; op == mesh.Delete {
			e.Service = &mesh.Service{
				ServiceKey: s.ServiceKey,
				Provider:   s.Provider,
				Cluster:    s.Cluster,
				Name:       s.Name,
				From:       s.From,
			}
		}
		out = append(out, e)
	})
	switch was, is := old.workload, now.workload; {
	case is != nil && (was == nil || was.Hash != is.Hash):
		e := event(mesh.Upsert)
		e.Workload = is
		out = append(out, e)
	case is == nil && was != nil:
		e := event(mesh.Delete)
		e.Workload = &mesh.Workload{
			Provider:  was.Provider,
			Cluster:   was.Cluster,
			Namespace: was.Namespace,
			Name:      was.Name,
			From:      was.From,
		}
		out = append(out, e)
	}
	if !slices.Equal(old.problems, now.problems) {
		e := event(mesh.Upsert)
		e.Problems = &mesh.Problems{Scope: key.String(), List: now.problems}
		out = append(out, e)
	}
	return out
}

func hostOfService(s *mesh.Service) mesh.Hostname { return s.Host }
func hostOfShard(s *mesh.Shard) mesh.Hostname     { return s.Service.Host }
func sameService(a, b *mesh.Service) bool         { return a.Hash == b.Hash }
func sameShard(a, b *mesh.Shard) bool             { return a.Hash == b.Hash }

// diffByHost calls say with Delete for each element that is only in old, and with Upsert for each
// new or changed one. Both lists must be sorted by host, without duplicates.
func diffByHost[T any](old, now []*T, host func(*T) mesh.Hostname, same func(a, b *T) bool, say func(mesh.Op, *T)) {
	for len(old) > 0 || len(now) > 0 {
		var order int
		switch {
		case len(old) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = cmp.Compare(host(old[0]), host(now[0]))
		}
		switch {
		case order < 0:
			say(mesh.Delete, old[0])
			old = old[1:]
		case order > 0:
			say(mesh.Upsert, now[0])
			now = now[1:]
		default:
			if !same(old[0], now[0]) {
				say(mesh.Upsert, now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
}
