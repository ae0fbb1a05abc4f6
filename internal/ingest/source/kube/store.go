package kube

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// store tracks the objects of the API server and their sent state; a batch is the difference.
// Reflectors write to it, and one goroutine takes batches.
type store struct {
	name               string
	revision           string
	shrinkConfirmation time.Duration
	metrics            Metrics
	clock              clock.Clock
	log                *slog.Logger
	recovery           *recovery.Recorder
	// optionalKinds are the kinds in Options.OptionalKinds.
	optionalKinds []api.Kind

	mu     sync.Mutex
	shards []*kindStore // in the order of the table of kinds
	// definitions is the shard of the reflector for CustomResourceDefinitions, or nil if no custom
	// kind is read.
	definitions *kindStore
	dirty       map[place]bool
	// wake wakes the goroutine that sends when there may be work.
	wake notify.Wake
}

// place identifies an object.
type place struct {
	shard *kindStore
	name  types.NamespacedName
}

// newStore returns a store with a kindStore for each kind, namespace and name to read, and one for
// definitions if a kind is custom. No namespace or name means all of them; cluster-scoped kinds
// ignore namespaces.
func newStore(o Options) *store {
	s := &store{
		name: o.Name, revision: o.Revision, shrinkConfirmation: o.ShrinkConfirmation, metrics: o.Metrics,
		clock: o.Clock, log: o.Logger, recovery: o.Recovery, optionalKinds: o.OptionalKinds,
		dirty: map[place]bool{}, wake: notify.NewWake(),
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

// newShard returns an empty kindStore of a kind in a namespace ("": all), which is not added to
// s.shards.
func (s *store) newShard(kind api.KindInfo, namespace string) *kindStore {
	return &kindStore{
		store:     s,
		kind:      kind,
		namespace: namespace,
		title:     string(kind.Kind),
		objects:   map[types.NamespacedName]*entry{},
	}
}

// markDirty marks an object whose state may differ from what was sent, and wakes Run. s.mu must be
// held.
func (s *store) markDirty(of *kindStore, name types.NamespacedName) {
	s.dirty[place{of, name}] = true
	s.wake.Notify()
}

// drainEvents returns the events for all differences to what was sent, and records them as sent.
// Objects are in the order of the table of kinds, then by namespace and name. It takes s.mu.
func (s *store) drainEvents() mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := make([]place, 0, len(s.dirty))
	for p := range s.dirty {
		places = append(places, p)
	}
	s.dirty = map[place]bool{} // not cleared: after the first lists it would stay as large as they are
	order := make(map[*kindStore]int, len(s.shards))
	for i, x := range s.shards {
		order[x] = i
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(
			cmp.Compare(order[a.shard], order[b.shard]),
			cmp.Compare(a.name.Namespace, b.name.Namespace),
			cmp.Compare(a.name.Name, b.name.Name),
		)
	})
	var out mesh.Batch
	for _, p := range places {
		out = p.shard.appendEvents(out, p.name)
	}
	return out
}

// appendEvents appends the events of one object and its Problems that differ from what was sent,
// and records them as sent. Problems are also sent again if the object's generation changed. It
// releases the object's Config. A deleted object is forgotten after that.
func (s *kindStore) appendEvents(out mesh.Batch, name types.NamespacedName) mesh.Batch {
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
		out = append(
			out,
			mesh.Event{Op: mesh.Delete, Source: s.store.name, Config: &config.Config{Meta: config.Meta{Key: key}}},
		)
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

// forEachStore calls f for all shards, the definitions first if there are any, then in the order of
// the table of kinds. It acquires s.mu and holds it during all calls.
func (s *store) forEachStore(f func(*kindStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.definitions != nil {
		f(s.definitions)
	}
	for _, x := range s.shards {
		f(x)
	}
}

// setInstalled marks a custom kind as installed.
func (s *kindStore) setInstalled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.installed = true
}

// recordResult records and counts the result of a list or watch, and wakes Run if the failure
// begins, ends or changes. URLs in errors are ignored when they are compared. The time of the
// failure is that of its first result. It takes s.mu.
func (s *kindStore) recordResult(err error) {
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
		} else if errorWithoutURL(s.err) == errorWithoutURL(err) {
			return
		}
		s.err = err
	}
	s.wake.Notify()
}
