package registry

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The following functions append the events for the difference between two conversions of one
// object. Lists are sorted by host, without duplicates.

// AppendShards appends the events that change the shards old into now. Both lists must be sorted by
// host. Equal hashes mean no Upsert. A deleted shard has only its service and key; a shard whose
// key changed is deleted first.
func AppendShards(out mesh.Batch, source string, old, now []*mesh.Shard) mesh.Batch {
	diffByHost(old, now,
		func(s *mesh.Shard) mesh.Hostname { return s.Service.Host },
		func(a, b *mesh.Shard) (equal, same bool) { return a.Hash == b.Hash, a.Key == b.Key },
		func(op mesh.Op, s *mesh.Shard) {
			if op == mesh.Delete {
				s = &mesh.Shard{Service: s.Service, Key: s.Key}
			}
			out = append(out, mesh.Event{Op: op, Source: source, Shard: s})
		})
	return out
}

// AppendServices appends the events that change the services old into now. Both lists must be
// sorted by host. Equal hashes mean no Upsert. A deleted service has only the fields that identify
// it; a service whose provider changed is deleted first.
func AppendServices(out mesh.Batch, source string, old, now []*mesh.Service) mesh.Batch {
	diffByHost(old, now,
		func(s *mesh.Service) mesh.Hostname { return s.Host },
		func(a, b *mesh.Service) (equal, same bool) { return a.Hash == b.Hash, a.Provider == b.Provider },
		func(op mesh.Op, s *mesh.Service) {
			if op == mesh.Delete {
				s = &mesh.Service{
					ServiceKey: s.ServiceKey,
					Provider:   s.Provider,
					Cluster:    s.Cluster,
					Name:       s.Name,
					From:       s.From,
				}
			}
			out = append(out, mesh.Event{Op: op, Source: source, Service: s})
		})
	return out
}

// AppendProblems appends an event that replaces the Problems of the scope, old, by now. It appends
// nothing if old and now are equal, including their order. An empty now deletes the Problems of the
// scope.
func AppendProblems(out mesh.Batch, source, scope string, old, now []config.Problem) mesh.Batch {
	if slices.Equal(old, now) {
		return out
	}
	problems := &mesh.Problems{Scope: scope, List: now}
	return append(out, mesh.Event{Op: mesh.Upsert, Source: source, Problems: problems})
}

// diffByHost calls emit with Delete for each element that is only in old, and with Upsert for each
// new or changed one. Both lists must be sorted by host. compare reports whether two elements are
// equal, and whether they have the same identity, so that an Upsert of one replaces the other;
// otherwise the old one is deleted first.
func diffByHost[T any](
	old, now []*T,
	host func(*T) mesh.Hostname,
	compare func(a, b *T) (equal, same bool),
	emit func(mesh.Op, *T),
) {
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && cmp.Less(host(old[0]), host(now[0])):
			emit(mesh.Delete, old[0])
			old = old[1:]
		case len(old) == 0 || cmp.Less(host(now[0]), host(old[0])):
			emit(mesh.Upsert, now[0])
			now = now[1:]
		default:
			equal, same := compare(old[0], now[0])
			if !same {
				emit(mesh.Delete, old[0])
			}
			if !equal {
				emit(mesh.Upsert, now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
}
