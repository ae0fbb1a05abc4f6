package conform

import (
	"errors"
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ServiceID tells what one registry says of a service from what others say of it.
type ServiceID struct {
	mesh.ServiceKey
	Provider mesh.Provider
	Cluster  mesh.ClusterID
	From     config.Key
}

// ShardID tells shards from each other.
type ShardID struct {
	Service mesh.ServiceKey
	Key     mesh.ShardKey
}

// WorkloadID tells workloads from each other.
type WorkloadID struct {
	Provider        mesh.Provider
	Cluster         mesh.ClusterID
	Namespace, Name string
}

func serviceID(s *mesh.Service) ServiceID {
	return ServiceID{s.ServiceKey, s.Provider, s.Cluster, s.From}
}
func shardID(s *mesh.Shard) ShardID { return ShardID{s.Service, s.Key} }
func workloadID(w *mesh.Workload) WorkloadID {
	return WorkloadID{w.Provider, w.Cluster, w.Namespace, w.Name}
}

// State is what the events so far say in the end. Two States that are equal (go-cmp) say the same.
type State struct {
	Services  map[ServiceID]*mesh.Service
	Shards    map[ShardID]*mesh.Shard
	Workloads map[WorkloadID]*mesh.Workload
	// Problems are by scope.
	Problems map[string][]config.Problem
	Synced   bool
}

// NewState gives the State before all events.
func NewState() *State {
	return &State{
		Services:  map[ServiceID]*mesh.Service{},
		Shards:    map[ShardID]*mesh.Shard{},
		Workloads: map[WorkloadID]*mesh.Workload{},
		Problems:  map[string][]config.Problem{},
	}
}

// Fold gives the State that batches lead to from nothing. It does not check them.
func Fold(batches ...mesh.Batch) *State {
	s := NewState()
	for _, b := range batches {
		_ = s.Apply(b)
	}
	return s
}

// Apply takes up a batch. It takes up all of it, and then names each event that a registry must not send: values that
// are not sealed, upserts that change nothing, deletes of what was not there, a second Synced, no source.
func (s *State) Apply(batch mesh.Batch) error {
	var wrong []error
	for i, e := range batch {
		if err := s.event(e); err != nil {
			wrong = append(wrong, fmt.Errorf("event %d (%s): %w", i, e.Op, err))
		}
	}
	return errors.Join(wrong...)
}

func (s *State) event(e mesh.Event) error {
	var err error
	switch {
	case e.Service != nil:
		err = put(s.Services, e.Op, serviceID(e.Service), e.Service, serviceHash)
	case e.Shard != nil:
		err = put(s.Shards, e.Op, shardID(e.Shard), e.Shard, shardHash)
	case e.Workload != nil:
		err = put(s.Workloads, e.Op, workloadID(e.Workload), e.Workload, workloadHash)
	case e.Problems != nil:
		err = s.problems(e.Problems)
	case e.Op == mesh.Synced:
		if s.Synced {
			err = errors.New("synced for the second time")
		}
		s.Synced = true
	default:
		return nil // config and settings are not a registry's to judge
	}
	if err == nil && e.Source == "" {
		err = errors.New("has no source")
	}
	return err
}

func (s *State) problems(p *mesh.Problems) error {
	if p.Scope == "" {
		return errors.New("problems without a scope")
	}
	known := s.Problems[p.Scope]
	if len(p.List) == 0 {
		delete(s.Problems, p.Scope)
		if len(known) == 0 {
			return fmt.Errorf("mends %s, of which nothing was wrong", p.Scope)
		}
		return nil
	}
	s.Problems[p.Scope] = p.List
	return nil
}

func put[K comparable, V any](m map[K]*V, op mesh.Op, k K, now *V, hash func(V) (said, taken uint64)) error {
	before := m[k]
	if op == mesh.Delete {
		delete(m, k)
		if before == nil {
			return fmt.Errorf("deletes %v, which is not there", k)
		}
		return nil
	}
	m[k] = now
	said, taken := hash(*now)
	if said != taken {
		return fmt.Errorf("%v is not sealed: its hash is %x, its content's %x", k, said, taken)
	}
	if before != nil {
		if was, _ := hash(*before); was == said {
			return fmt.Errorf("says of %v what is known", k)
		}
	}
	return nil
}

// Check says which values have been changed since they were sent: all are immutable.
func (s *State) Check() error {
	return errors.Join(check(s.Services, serviceHash), check(s.Shards, shardHash), check(s.Workloads, workloadHash))
}

func check[K comparable, V any](m map[K]*V, hash func(V) (said, taken uint64)) error {
	var wrong []error
	for k, v := range m {
		if said, taken := hash(*v); said != taken {
			wrong = append(wrong, fmt.Errorf("%v was changed after it was sent", k))
		}
	}
	return errors.Join(wrong...)
}

// The hashes give the hash that a value carries and the one that its content has now.

func serviceHash(s mesh.Service) (said, taken uint64) {
	said, s.Hash = s.Hash, 0
	return said, s.Sealed().Hash
}

func shardHash(s mesh.Shard) (said, taken uint64) {
	said, s.Hash = s.Hash, 0
	return said, s.Sealed().Hash
}

func workloadHash(w mesh.Workload) (said, taken uint64) {
	said, w.Hash = w.Hash, 0
	return said, w.Sealed().Hash
}
