package conform

import (
	"errors"
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ServiceID identifies a service definition of one registry.
type ServiceID struct {
	mesh.ServiceKey
	Provider mesh.Provider
	Cluster  mesh.ClusterID
	From     config.Key
}

// ShardID identifies a shard.
type ShardID struct {
	Service mesh.ServiceKey
	Key     mesh.ShardKey
}

// WorkloadID identifies a workload.
type WorkloadID struct {
	Provider        mesh.Provider
	Cluster         mesh.ClusterID
	Namespace, Name string
}

// serviceID returns the ID of a service: its key, provider, cluster and object.
func serviceID(s *mesh.Service) ServiceID {
	return ServiceID{s.ServiceKey, s.Provider, s.Cluster, s.From}
}

// shardID returns the ID of a shard: the key of its service and its own.
func shardID(s *mesh.Shard) ShardID { return ShardID{s.Service, s.Key} }

// workloadID returns the ID of a workload: its provider, cluster, namespace and name.
func workloadID(w *mesh.Workload) WorkloadID {
	return WorkloadID{w.Provider, w.Cluster, w.Namespace, w.Name}
}

// State is the result of applying events. Equal States (go-cmp) have equal content.
type State struct {
	Services  map[ServiceID]*mesh.Service
	Shards    map[ShardID]*mesh.Shard
	Workloads map[WorkloadID]*mesh.Workload
	// Problems is keyed by scope.
	Problems map[string][]config.Problem
	Synced   bool
}

// NewState returns an empty State.
func NewState() *State {
	return &State{
		Services:  map[ServiceID]*mesh.Service{},
		Shards:    map[ShardID]*mesh.Shard{},
		Workloads: map[WorkloadID]*mesh.Workload{},
		Problems:  map[string][]config.Problem{},
	}
}

// Fold returns the State after applying batches to an empty State. It ignores errors of Apply.
func Fold(batches ...mesh.Batch) *State {
	s := NewState()
	for _, b := range batches {
		_ = s.Apply(b)
	}
	return s
}

// Apply applies all events of a batch. It returns an error that names each event that a registry
// must not send (applyEvent). Examples are values that are not sealed, upserts without a change,
// deletes of unknown entities, and events without a source. Such events are applied too, except
// Problems without a scope. Config objects and settings are ignored.
func (s *State) Apply(batch mesh.Batch) error {
	var wrong []error
	for i, e := range batch {
		if err := s.applyEvent(e); err != nil {
			wrong = append(wrong, fmt.Errorf("event %d (%s): %w", i, e.Op, err))
		}
	}
	return errors.Join(wrong...)
}

// applyEvent applies an event to the state; config objects and settings are ignored. It returns an
// error for an event without a source, a second Synced, a wrong hash or no change. It also does so
// if an unknown entity is deleted, or Problems are cleared that do not exist. The event is applied
// nevertheless, except Problems without a scope.
func (s *State) applyEvent(e mesh.Event) error {
	var err error
	switch {
	case e.Service != nil:
		err = applyEntity(s.Services, e.Op, serviceID(e.Service), e.Service, serviceHash)
	case e.Shard != nil:
		err = applyEntity(s.Shards, e.Op, shardID(e.Shard), e.Shard, shardHash)
	case e.Workload != nil:
		err = applyEntity(s.Workloads, e.Op, workloadID(e.Workload), e.Workload, workloadHash)
	case e.Problems != nil:
		err = s.applyProblems(e.Problems)
	case e.Op == mesh.Synced:
		if s.Synced {
			err = errors.New("synced for the second time")
		}
		s.Synced = true
	default:
		return nil // config objects and settings are not checked
	}
	if err == nil && e.Source == "" {
		err = errors.New("has no source")
	}
	return err
}

// applyProblems replaces the Problems of a scope; an empty list clears them. It returns an error,
// and changes nothing, for an empty scope, and if a scope without Problems is cleared.
func (s *State) applyProblems(p *mesh.Problems) error {
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

// applyEntity stores or deletes an entity in m. It returns an error for the deletion of an unknown
// entity, for a wrong hash, and for an unchanged entity. The entity is stored even if it returns an
// error.
func applyEntity[K comparable, V any](m map[K]*V, op mesh.Op, k K, now *V, hash func(V) (said, taken uint64)) error {
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

// Check returns an error that names the values that were modified after they were sent. All values
// must be immutable.
func (s *State) Check() error {
	return errors.Join(
		checkHashes(s.Services, serviceHash),
		checkHashes(s.Shards, shardHash),
		checkHashes(s.Workloads, workloadHash),
	)
}

// checkHashes returns an error that names each entry of m whose recorded hash is not that of its
// content. hash returns both.
func checkHashes[K comparable, V any](m map[K]*V, hash func(V) (said, taken uint64)) error {
	var wrong []error
	for k, v := range m {
		if said, taken := hash(*v); said != taken {
			wrong = append(wrong, fmt.Errorf("%v was changed after it was sent", k))
		}
	}
	return errors.Join(wrong...)
}

// The hash functions return the hash that a value carries and the hash of its content.

// serviceHash returns the hash that a service carries, and the hash of its content.
func serviceHash(s mesh.Service) (said, taken uint64) {
	said, s.Hash = s.Hash, 0
	return said, s.Sealed().Hash
}

// shardHash returns the hash that a shard carries, and the hash of its content.
func shardHash(s mesh.Shard) (said, taken uint64) {
	said, s.Hash = s.Hash, 0
	return said, s.Sealed().Hash
}

// workloadHash returns the hash that a workload carries, and the hash of its content.
func workloadHash(w mesh.Workload) (said, taken uint64) {
	said, w.Hash = w.Hash, 0
	return said, w.Sealed().Hash
}
