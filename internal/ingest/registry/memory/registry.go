package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Registry holds services, shards and workloads. It may be changed from any goroutine, also while it runs, and may run
// many times over, each time from the start.
type Registry struct {
	name string

	mu      sync.Mutex
	things  map[thing]mesh.Event // upserts
	changed chan struct{}        // closed at the next change
}

var _ registry.Registry = (*Registry)(nil)

// thing names what an event is about; the kind is told by the fields that are set.
type thing struct {
	service         mesh.ServiceKey
	shard           mesh.ShardKey
	namespace, name string // of a workload
	provider        mesh.Provider
	cluster         mesh.ClusterID
	from            config.Key
}

// New makes an empty registry of that name.
func New(name string) *Registry {
	return &Registry{name: name, things: map[thing]mesh.Event{}, changed: make(chan struct{})}
}

// Name is the name given to New.
func (r *Registry) Name() string { return r.name }

// SetService puts a service in the place of the one with its key. Without a provider it is mesh.Memory's.
func (r *Registry) SetService(s mesh.Service) { r.Apply(mesh.Event{Service: &s}) }

// DeleteService takes a service away; only its key counts (ServiceKey, Provider, Cluster, From).
func (r *Registry) DeleteService(s mesh.Service) { r.Apply(mesh.Event{Op: mesh.Delete, Service: &s}) }

// SetShard puts a list of endpoints in the place of the one with its key.
func (r *Registry) SetShard(s mesh.Shard) { r.Apply(mesh.Event{Shard: &s}) }

// DeleteShard takes a list of endpoints away; only its key counts (Service, Key).
func (r *Registry) DeleteShard(s mesh.Shard) { r.Apply(mesh.Event{Op: mesh.Delete, Shard: &s}) }

// SetWorkload puts a workload in the place of the one with its key.
func (r *Registry) SetWorkload(w mesh.Workload) { r.Apply(mesh.Event{Workload: &w}) }

// DeleteWorkload takes a workload away; only its key counts (Provider, Cluster, Namespace, Name).
func (r *Registry) DeleteWorkload(w mesh.Workload) {
	r.Apply(mesh.Event{Op: mesh.Delete, Workload: &w})
}

// Apply makes several changes as one: a reader sees all of them or none. Values need not be sealed. Events about other
// things are passed over.
func (r *Registry) Apply(changes ...mesh.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range changes {
		k, e := r.own(e)
		switch {
		case k == (thing{}):
		case e.Op == mesh.Delete:
			delete(r.things, k)
		default:
			r.things[k] = e
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// own makes a sealed event of the registry's own, and its key.
func (r *Registry) own(e mesh.Event) (thing, mesh.Event) {
	now := mesh.Event{Op: e.Op, Source: r.name}
	switch {
	case e.Service != nil:
		s := *e.Service
		s.Hash, s.Provider = 0, cmp.Or(s.Provider, mesh.Memory)
		now.Service = s.Sealed()
		return thing{service: s.ServiceKey, provider: s.Provider, cluster: s.Cluster, from: s.From}, now
	case e.Shard != nil:
		s := *e.Shard
		s.Hash, s.Key.Provider = 0, cmp.Or(s.Key.Provider, mesh.Memory)
		now.Shard = s.Sealed()
		return thing{service: s.Service, shard: s.Key}, now
	case e.Workload != nil:
		w := *e.Workload
		w.Hash, w.Provider = 0, cmp.Or(w.Provider, mesh.Memory)
		now.Workload = w.Sealed()
		return thing{namespace: w.Namespace, name: w.Name, provider: w.Provider, cluster: w.Cluster}, now
	default:
		return thing{}, mesh.Event{}
	}
}

// Run says what is there, Synced, and then what changes.
func (r *Registry) Run(ctx context.Context, out chan<- mesh.Batch) error {
	said := map[thing]mesh.Event{}
	batch, changed := r.news(said)
	batch = append(batch, mesh.Event{Op: mesh.Synced, Source: r.name})
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		batch, changed = r.news(said)
	}
}

// news gives what differs from what was said, notes it as said, and gives the channel that tells of the next change.
func (r *Registry) news(said map[thing]mesh.Event) (mesh.Batch, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var gone, batch mesh.Batch
	for k, e := range said {
		if _, there := r.things[k]; !there {
			e.Op = mesh.Delete
			gone = append(gone, e)
			delete(said, k)
		}
	}
	for k, e := range r.things {
		if before, known := said[k]; !known || hash(before) != hash(e) {
			batch = append(batch, e)
			said[k] = e
		}
	}
	slices.SortFunc(gone, compare)
	slices.SortFunc(batch, compare)
	return append(gone, batch...), r.changed
}

func hash(e mesh.Event) uint64 {
	switch {
	case e.Service != nil:
		return e.Service.Hash
	case e.Shard != nil:
		return e.Shard.Hash
	default:
		return e.Workload.Hash
	}
}

// compare orders events: services, shards, workloads, each by name.
func compare(a, b mesh.Event) int {
	rank := func(e mesh.Event) (int, string) {
		switch {
		case e.Service != nil:
			s := e.Service
			return 0, string(s.Host) + "/" + s.Namespace + "/" + string(s.Provider) + "/" + string(s.Cluster) + "/" + s.From.String()
		case e.Shard != nil:
			s := e.Shard
			return 1, string(s.Service.Host) + "/" + s.Service.Namespace + "/" + string(s.Key.Provider) + "/" + string(s.Key.Cluster) + "/" + s.Key.Object.String()
		default:
			w := e.Workload
			return 2, w.Namespace + "/" + w.Name + "/" + string(w.Provider) + "/" + string(w.Cluster)
		}
	}
	ra, na := rank(a)
	rb, nb := rank(b)
	return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(na, nb))
}
