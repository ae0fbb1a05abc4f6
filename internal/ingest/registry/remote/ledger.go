package remote

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ledger is what a cluster has said that still holds.
type ledger struct {
	held   map[subject]mesh.Event
	counts [ranks]int
}

func newLedger() *ledger { return &ledger{held: map[subject]mesh.Event{}} }

// subject is what one event is about. Exactly one group of fields is set.
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

// subjectOf says what an event is about; false for events that are none of a remote cluster's to say.
func subjectOf(e *mesh.Event) (subject, bool) {
	switch {
	case e.Service != nil:
		return subject{cluster: e.Service.Cluster, service: e.Service.ServiceKey, from: e.Service.From, provider: e.Service.Provider}, true
	case e.Shard != nil:
		return subject{service: e.Shard.Service, shard: e.Shard.Key}, true
	case e.Workload != nil:
		return subject{cluster: e.Workload.Cluster, workload: config.Key{Namespace: e.Workload.Namespace, Name: e.Workload.Name}, provider: e.Workload.Provider}, true
	case e.Gateways != nil:
		return subject{cluster: e.Gateways.Cluster, gateway: e.Gateways.From}, true
	case e.Problems != nil:
		return subject{source: e.Source, scope: e.Problems.Scope, isProblem: true}, true
	default:
		return subject{}, false
	}
}

// The kinds of subjects, in the order in which they are taken back: endpoints before their services.
const (
	shards = iota
	workloads
	services
	gateways
	mistakes
	ranks
)

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

// take writes a batch down, and gives those events of it that are a remote cluster's to say.
func (l *ledger) take(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for i := range batch {
		e := batch[i]
		k, ok := subjectOf(&e)
		if !ok {
			continue
		}
		before := len(l.held)
		if e.Op == mesh.Delete || e.Problems != nil && len(e.Problems.List) == 0 {
			delete(l.held, k)
		} else {
			l.held[k] = e
		}
		l.counts[k.rank()] += len(l.held) - before
		out = append(out, e)
	}
	return out
}

// takeBack gives the events after which nothing holds of what the ledger has and next has not.
func (l *ledger) takeBack(next *ledger) mesh.Batch {
	var gone []subject
	for k := range l.held {
		if _, holds := next.held[k]; !holds {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, func(a, b subject) int { return cmp.Compare(a.rank(), b.rank()) })
	batch := make(mesh.Batch, 0, len(gone))
	for _, k := range gone {
		batch = append(batch, opposite(l.held[k]))
	}
	return batch
}

func opposite(e mesh.Event) mesh.Event {
	if e.Problems != nil {
		e.Problems = &mesh.Problems{Scope: e.Problems.Scope, Generation: e.Problems.Generation}
		return e
	}
	e.Op = mesh.Delete
	return e
}

// become gives the events that lead from what the ledger has to what next has. What is the same in both is among them where that
// cannot be told cheaply: the snapshot passes over it.
func (l *ledger) become(next *ledger) mesh.Batch {
	batch := l.takeBack(next)
	for k, e := range next.held {
		if old, held := l.held[k]; !held || !sameEvent(&old, &e) {
			batch = append(batch, e)
		}
	}
	return batch
}

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
