package kube

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// store is what is known of the API server's objects, and what was sent of it: a batch is the difference. Reflectors write to
// it, and one goroutine takes batches.
type store struct {
	name     string
	revision string
	doubt    time.Duration
	metrics  Metrics
	clock    Clock
	log      *slog.Logger
	recovery *recovery.Recorder
	// dispensable are kinds that need not be waited for besides those that never need be.
	dispensable []api.Kind

	mu     sync.Mutex
	shards []*shard // in the order of the table of kinds
	// definitions stands for the reflector of the definitions of custom kinds; nil if none is wanted.
	definitions *shard
	dirty       map[place]bool
	// changed has something in it when there is something to look at.
	changed chan struct{}
}

// place is where an object is.
type place struct {
	shard *shard
	name  types.NamespacedName
}

func newStore(o Options) *store {
	s := &store{
		name: o.Name, revision: o.Revision, doubt: o.Doubt, metrics: o.Metrics, clock: o.Clock, log: o.Logger, recovery: o.Recovery, dispensable: o.Dispensable,
		dirty: map[place]bool{}, changed: make(chan struct{}, 1),
	}
	all := func(list []string) []string {
		if len(list) == 0 {
			return []string{""}
		}
		return list
	}
	custom := false
	for _, info := range api.Kinds() {
		if !slices.Contains(o.Kinds, info.Kind) {
			continue
		}
		custom = custom || info.Custom
		namespaces := all(o.Namespaces)
		if info.ClusterScoped {
			namespaces = all(nil)
		}
		for _, ns := range namespaces {
			for _, name := range all(o.Names) {
				x := s.newShard(info, ns)
				if x.only = name; name != "" {
					x.title += " " + name
				}
				if len(namespaces) > 1 {
					x.title += " in " + ns
				}
				s.shards = append(s.shards, x)
			}
		}
	}
	if custom {
		s.definitions = s.newShard(definitionKind, "")
	}
	return s
}

func (s *store) newShard(kind api.KindInfo, namespace string) *shard {
	return &shard{store: s, kind: kind, namespace: namespace, title: string(kind.Kind), objects: map[types.NamespacedName]*entry{}}
}

// signal says that there is something to look at.
func (s *store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// touch notes that an object may differ from what was sent. The store is locked.
func (s *store) touch(of *shard, name types.NamespacedName) {
	s.dirty[place{of, name}] = true
	s.signal()
}

// take gives the events that tell what differs from what was sent, and notes it as sent: objects in the order of the table of
// kinds, by namespace and name.
func (s *store) take() mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := make([]place, 0, len(s.dirty))
	for p := range s.dirty {
		places = append(places, p)
	}
	clear(s.dirty)
	order := make(map[*shard]int, len(s.shards))
	for i, x := range s.shards {
		order[x] = i
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(order[a.shard], order[b.shard]), cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name))
	})
	var out mesh.Batch
	for _, p := range places {
		out = p.shard.tell(out, p.name)
	}
	return out
}

// tell appends what differs of one object from what was sent.
func (s *shard) tell(out mesh.Batch, name types.NamespacedName) mesh.Batch {
	e := s.objects[name]
	if e == nil {
		return out
	}
	key := config.Key{Kind: s.kind.Kind, Namespace: name.Namespace, Name: name.Name}
	switch {
	case e.now == e.sent:
	case e.now.there:
		out = append(out, mesh.Event{Op: mesh.Upsert, Source: s.store.name, Config: e.config})
	default:
		out = append(out, mesh.Event{Op: mesh.Delete, Source: s.store.name, Config: &config.Config{Meta: config.Meta{Key: key}}})
	}
	e.sent, e.config = e.now, nil
	if !slices.Equal(e.problems, e.sentProblems) || len(e.problems) > 0 && e.generation != e.sentGeneration {
		out = append(out, mesh.Event{Source: s.store.name, Problems: &mesh.Problems{
			Scope: s.store.name + " " + key.String(), List: e.problems, Generation: e.generation,
		}})
		e.sentProblems, e.sentGeneration = e.problems, e.generation
	}
	if e.gone {
		delete(s.objects, name)
	}
	return out
}

// each calls f for all shards that have a reflector, that of the definitions among them. The store is locked while it does.
func (s *store) each(f func(*shard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.definitions != nil {
		f(s.definitions)
	}
	for _, x := range s.shards {
		f(x)
	}
}

// setInstalled notes that a custom kind is there.
func (s *shard) setInstalled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installed = true
}

// told takes in how a list or watch went.
func (s *shard) told(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && s.err == nil:
		return
	case err == nil:
		s.err = nil
	default:
		s.metrics.Failed(s.kind.Kind)
		if s.err == nil {
			s.since = s.clock.Now()
		} else if brief(s.err) == brief(err) {
			return
		}
		s.err = err
	}
	s.signal()
}
