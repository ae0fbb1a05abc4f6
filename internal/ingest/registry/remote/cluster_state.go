package remote

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// clusterState is the current state of a cluster, as a set of events.
type clusterState struct {
	events map[subject]mesh.Event
	counts [ranks]int
}

// newClusterState returns the state of a cluster before any event.
func newClusterState() *clusterState { return &clusterState{events: map[subject]mesh.Event{}} }

// subject identifies the entity of an event. Exactly one group of fields is set.
type subject struct {
	cluster   mesh.ClusterID
	service   mesh.ServiceKey // also of a shard
	from      config.Key      // of a service
	shard     mesh.ShardKey
	workload  config.Key
	gateway   config.Key // of a GatewayObject
	source    string     // of problems
	scope     string
	provider  mesh.Provider
	isProblem bool
}

// subjectOf returns what an event is about: the same value for all events of which the last one
// counts. It returns false for events that remote clusters must not send. These are config objects,
// settings and Synced.
func subjectOf(e *mesh.Event) (subject, bool) {
	switch {
	case e.Service != nil:
		return subject{
			cluster:  e.Service.Cluster,
			service:  e.Service.ServiceKey,
			from:     e.Service.From,
			provider: e.Service.Provider,
		}, true
	case e.Shard != nil:
		return subject{service: e.Shard.Service, shard: e.Shard.Key}, true
	case e.Workload != nil:
		return subject{
			cluster:  e.Workload.Cluster,
			workload: config.Key{Namespace: e.Workload.Namespace, Name: e.Workload.Name},
			provider: e.Workload.Provider,
		}, true
	case e.Gateways != nil:
		return subject{cluster: e.Gateways.Cluster, gateway: e.Gateways.From}, true
	case e.Problems != nil:
		return subject{source: e.Source, scope: e.Problems.Scope, isProblem: true}, true
	default:
		return subject{}, false
	}
}

// The kinds of subjects, in the order of deletion: endpoints before their services.
const (
	shards = iota
	workloads
	services
	gateways
	mistakes
	ranks
)

// rank returns the kind of the subject: shards, workloads, services, gateways or else mistakes,
// whose values order deletions.
func (s subject) rank() int {
	switch {
	case s.shard != (mesh.ShardKey{}):
		return shards
	case s.workload != (config.Key{}):
		return workloads
	case s.service != (mesh.ServiceKey{}):
		return services
	case s.gateway != (config.Key{}):
		return gateways
	default:
		return mistakes
	}
}

// record records a batch and returns its events, without the kinds that remote clusters must not
// send. An upsert replaces the recorded event of its subject; deletions and empty Problems remove
// it.
func (l *clusterState) record(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for i := range batch {
		e := batch[i]
		k, ok := subjectOf(&e)
		if !ok {
			continue
		}
		before := len(l.events)
		if e.Op == mesh.Delete || e.Problems != nil && len(e.Problems.List) == 0 {
			delete(l.events, k)
		} else {
			l.events[k] = e
		}
		l.counts[k.rank()] += len(l.events) - before
		out = append(out, e)
	}
	return out
}

// deleteMissing returns the events that delete what l contains and next does not, shards first.
func (l *clusterState) deleteMissing(next *clusterState) mesh.Batch {
	var gone []subject
	for k := range l.events {
		if _, holds := next.events[k]; !holds {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, func(a, b subject) int { return cmp.Compare(a.rank(), b.rank()) })
	batch := make(mesh.Batch, 0, len(gone))
	for _, k := range gone {
		batch = append(batch, deleteEvent(l.events[k]))
	}
	return batch
}

// deleteEvent returns the event that deletes the entity of e, or clears its Problems.
func deleteEvent(e mesh.Event) mesh.Event {
	if e.Problems != nil {
		e.Problems = &mesh.Problems{Scope: e.Problems.Scope, Generation: e.Problems.Generation}
		return e
	}
	e.Op = mesh.Delete
	return e
}

// diff returns the events that change the state from l to next, deletions first, upserts in no
// particular order. It may include unchanged Problems, which the snapshot ignores.
func (l *clusterState) diff(next *clusterState) mesh.Batch {
	batch := l.deleteMissing(next)
	for k, e := range next.events {
		if old, held := l.events[k]; !held || !sameEvent(&old, &e) {
			batch = append(batch, e)
		}
	}
	return batch
}

// sameEvent reports whether two upserts of one subject have equal content, by their hashes. It
// returns false for subjects other than services, shards, workloads and gateways, such as Problems.
func sameEvent(a, b *mesh.Event) bool {
	switch {
	case a.Service != nil && b.Service != nil:
		return a.Service.Hash == b.Service.Hash
	case a.Shard != nil && b.Shard != nil:
		return a.Shard.Hash == b.Shard.Hash
	case a.Workload != nil && b.Workload != nil:
		return a.Workload.Hash == b.Workload.Hash
	case a.Gateways != nil && b.Gateways != nil:
		return a.Gateways.Equal(b.Gateways)
	default:
		return false
	}
}
