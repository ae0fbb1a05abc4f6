package status

import (
	"maps"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// AppliedObjects records which generation of each object this replica has applied. The goroutine
// that applies batches writes it; it is safe for concurrent reads.
type AppliedObjects struct {
	source string
	now    func() time.Time

	mu      sync.Mutex
	objects map[config.Key]appliedObject
	// unpublished contains objects that came since the last snapshot.
	unpublished map[config.Key]struct{}
	// newestSnapshot is the version of the newest snapshot that differs for proxies, or 0 before
	// the first one.
	newestSnapshot uint64
	listeners      map[notify.Wake]struct{} // of subscribe
}

// appliedObject is the last known generation of one object.
type appliedObject struct {
	generation int64
	hash       uint64
	// refused means that the object was rejected with Problems only.
	refused bool
	// since is the time of arrival, or zero for objects of the initial sync.
	since time.Time
	// snapshot is the version of the snapshot that contains the generation, or 0 if it is not
	// published yet.
	snapshot uint64
}

// NewAppliedObjects returns an empty AppliedObjects for the given source, which must read the API
// server that is written to. If now is nil, the system's clock is used.
func NewAppliedObjects(source string, now func() time.Time) *AppliedObjects {
	if now == nil {
		now = time.Now
	}
	return &AppliedObjects{
		source:      source,
		now:         now,
		objects:     map[config.Key]appliedObject{},
		unpublished: map[config.Key]struct{}{},
		listeners:   map[notify.Wake]struct{}{},
	}
}

// RecordBatch records the generations in a batch that is about to be applied, and which ones were
// refused; deleted objects are forgotten. It ignores events of other sources, kinds without a
// status, and objects without a generation, which are not from an API server.
func (b *AppliedObjects) RecordBatch(batch mesh.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range batch {
		switch {
		case e.Source != b.source:
		case e.Config != nil && hasStatus(e.Config.Kind) && e.Op == mesh.Delete:
			b.removeObject(e.Config.Key)
		case e.Config != nil && hasStatus(e.Config.Kind) && e.Config.Generation > 0:
			b.recordObject(e.Config.Key, appliedObject{generation: e.Config.Generation, hash: e.Config.Hash})
		case e.Problems != nil && e.Problems.Generation > 0:
			for _, p := range e.Problems.List {
				if p.Severity == config.Error && hasStatus(p.Key.Kind) {
					b.recordObject(p.Key, appliedObject{generation: e.Problems.Generation, refused: true})
				}
			}
		}
	}
}

// hasStatus reports whether this package writes the status of the kind. Those are Ingresses, and
// the kinds with conditions.
func hasStatus(kind api.Kind) bool { return kind == api.Ingress || hasConditions(kind) }

// hasConditions reports whether the status of the kind has the form of IstioStatus.
func hasConditions(kind api.Kind) bool {
	k, known := api.Info(kind)
	return known && k.Istio()
}

// removeObject forgets an object. mu must be held.
func (b *AppliedObjects) removeObject(k config.Key) {
	delete(b.objects, k)
	delete(b.unpublished, k)
}

// recordObject stores a generation of an object and marks it as unpublished. If generation and
// refusal are as recorded, it updates only the hash; a refusal of a generation that is applied in
// part is ignored. Before the first snapshot, objects have no time of arrival. mu must be held.
func (b *AppliedObjects) recordObject(k config.Key, e appliedObject) {
	old, known := b.objects[k]
	if known && old.generation == e.generation && old.refused == e.refused {
		old.hash = e.hash // labels and annotations do not change the generation
		b.objects[k] = old
		return
	}
	if known && old.generation == e.generation && e.refused {
		return // partly applied
	}
	if b.newestSnapshot > 0 {
		e.since = b.now()
	}
	b.objects[k] = e
	b.unpublished[k] = struct{}{}
}

// Delta is the difference between two snapshots for proxies (snapshot.Delta).
type Delta interface {
	// Empty reports whether nothing differs for proxies.
	Empty() bool
	// EndpointsOnly reports whether only endpoints of services differ. Conditions do not depend on
	// them.
	EndpointsOnly() bool
}

// RecordSnapshot marks the objects recorded since the last call as contained in the newest version:
// the given one, which is about to be published, or, if d is Empty and there was one before, that
// before. d is the difference to the previous snapshot. It notifies subscribers if there were such
// objects, for the first snapshot, and if d changes more than endpoints.
func (b *AppliedObjects) RecordSnapshot(version uint64, d Delta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.newestSnapshot == 0
	if !d.Empty() || first {
		b.newestSnapshot = version
	}
	if b.markPublished() || first || !d.Empty() && !d.EndpointsOnly() {
		b.notifyListeners()
	}
}

// subscribe returns a channel that receives after a notification, and a function that ends the
// subscription. Notifications in between are combined. The channel is not closed.
func (b *AppliedObjects) subscribe() (news <-chan struct{}, end func()) {
	c := notify.NewWake()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[c] = struct{}{}
	return c.C(), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, c)
	}
}

// markPublished sets the snapshot of all unpublished objects to the newest one, and reports whether
// there were any. mu is held.
func (b *AppliedObjects) markPublished() (some bool) {
	for k := range b.unpublished {
		if e, ok := b.objects[k]; ok {
			e.snapshot = b.newestSnapshot
			b.objects[k] = e
		}
	}
	some = len(b.unpublished) > 0
	clear(b.unpublished)
	return some
}

// notifyListeners wakes up all subscribers. mu is held.
func (b *AppliedObjects) notifyListeners() {
	for c := range b.listeners {
		c.Notify()
	}
}

// Notify wakes up all subscribers when other inputs of their evaluation changed.
func (b *AppliedObjects) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notifyListeners()
}

// lookup returns what is recorded of an object, and false if nothing is.
func (b *AppliedObjects) lookup(k config.Key) (appliedObject, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.objects[k]
	return e, ok
}

// knownKinds returns the kinds of all recorded objects.
func (b *AppliedObjects) knownKinds() map[api.Kind]struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	kinds := map[api.Kind]struct{}{}
	for k := range b.objects {
		kinds[k.Kind] = struct{}{}
	}
	return kinds
}

// changedSince returns the objects whose generation came after a time. Objects of the first
// snapshot have no time and are left out. The map is the caller's.
func (b *AppliedObjects) changedSince(after time.Time) map[config.Key]appliedObject {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Collect(func(yield func(config.Key, appliedObject) bool) {
		for k, e := range b.objects {
			if e.since.After(after) && !yield(k, e) {
				return
			}
		}
	})
}

// hasSnapshot reports whether a snapshot was published.
func (b *AppliedObjects) hasSnapshot() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newestSnapshot > 0
}

// newestVersion returns the version of the newest snapshot that differs for proxies, or 0 before
// the first one.
func (b *AppliedObjects) newestVersion() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newestSnapshot
}
