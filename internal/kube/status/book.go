package status

import (
	"maps"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Book knows which generation of each object this replica has taken up. It is filled in by the goroutine that applies batches,
// and may be read by any.
type Book struct {
	source string
	now    func() time.Time

	mu      sync.Mutex
	objects map[config.Key]entry
	// waiting are those that came since the last snapshot.
	waiting map[config.Key]struct{}
	// served is the version of the newest snapshot in which something differs for proxies; 0: none was published yet.
	served    uint64
	listeners map[chan struct{}]struct{} // each holds one token
}

// entry is one object as it came last.
type entry struct {
	generation int64
	hash       uint64
	// refused says that it came as nothing but Problems.
	refused bool
	// since is when this generation came, zero for those that were there at the start.
	since time.Time
	// snapshot is the version of the one that proxies must be served by to have this generation; 0: it is not in one yet.
	snapshot uint64
}

// NewBook makes an empty Book of what a source says: the one that reads the API server that is written to. now is nil for the
// system's clock.
func NewBook(source string, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{source: source, now: now, objects: map[config.Key]entry{}, waiting: map[config.Key]struct{}{}, listeners: map[chan struct{}]struct{}{}}
}

// Observe takes up a batch that is about to be applied. Objects without a generation are not of an API server, and left out.
func (b *Book) Observe(batch mesh.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range batch {
		switch {
		case e.Source != b.source:
		case e.Config != nil && ours(e.Config.Kind) && e.Op == mesh.Delete:
			b.gone(e.Config.Key)
		case e.Config != nil && ours(e.Config.Kind) && e.Config.Generation > 0:
			b.take(e.Config.Key, entry{generation: e.Config.Generation, hash: e.Config.Hash})
		case e.Problems != nil && e.Problems.Generation > 0:
			for _, p := range e.Problems.List {
				if p.Severity == config.Error && ours(p.Key.Kind) {
					b.take(p.Key, entry{generation: e.Problems.Generation, refused: true})
				}
			}
		}
	}
}

// ours says whether something is written into the status of a kind's objects.
func ours(kind api.Kind) bool { return kind == api.Ingress || conditional(kind) }

// conditional says whether objects of a kind have a status of IstioStatus's form.
func conditional(kind api.Kind) bool {
	k, known := api.Info(kind)
	return known && k.Istio()
}

func (b *Book) gone(k config.Key) {
	delete(b.objects, k)
	delete(b.waiting, k)
}

func (b *Book) take(k config.Key, e entry) {
	old, known := b.objects[k]
	if known && old.generation == e.generation && old.refused == e.refused {
		old.hash = e.hash // labels and annotations have no generation
		b.objects[k] = old
		return
	}
	if known && old.generation == e.generation && e.refused {
		return // it is in use, but not all of it
	}
	if b.served > 0 {
		e.since = b.now()
	}
	b.objects[k] = e
	b.waiting[k] = struct{}{}
}

// Published says that what was observed is in the snapshot of that version, which is about to be published, with how it differs for
// proxies from the one before.
func (b *Book) Published(version uint64, d Difference) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.served == 0
	if d != Nothing || first {
		b.served = version
	}
	if b.settle() || first || d == Everything {
		b.rouse()
	}
}

// Difference is what differs for proxies between two snapshots.
type Difference int

// The differences.
const (
	Nothing Difference = iota
	// Endpoints of services differ, and nothing that conditions of other objects depend on.
	Endpoints
	Everything
)

// news gives what holds a token when something was published since it was taken last, and what ends that.
func (b *Book) news() (news <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[c] = struct{}{}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, c)
	}
}

// settle notes for all objects that waited that they are in the newest snapshot, and says whether any did. Book.mu is held.
func (b *Book) settle() (some bool) {
	for k := range b.waiting {
		if e, ok := b.objects[k]; ok {
			e.snapshot = b.served
			b.objects[k] = e
		}
	}
	some = len(b.waiting) > 0
	clear(b.waiting)
	return some
}

// rouse wakes everybody who listens (news). Book.mu is held.
func (b *Book) rouse() {
	for c := range b.listeners {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Look wakes everybody who listens, as if something had come: what their verdict depends on changed, but the Book knows nothing of that.
func (b *Book) Look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rouse()
}

// get finds an object.
func (b *Book) get(k config.Key) (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.objects[k]
	return e, ok
}

// kinds gives the kinds that there are objects of.
func (b *Book) kinds() map[api.Kind]struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	kinds := map[api.Kind]struct{}{}
	for k := range b.objects {
		kinds[k.Kind] = struct{}{}
	}
	return kinds
}

// recent gives the objects of which a generation came after some time.
func (b *Book) recent(after time.Time) map[config.Key]entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Collect(func(yield func(config.Key, entry) bool) {
		for k, e := range b.objects {
			if e.since.After(after) && !yield(k, e) {
				return
			}
		}
	})
}

// begun says whether a snapshot was published.
func (b *Book) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served > 0
}

// newest is the version of the newest snapshot in which something differs for proxies.
func (b *Book) newest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served
}
