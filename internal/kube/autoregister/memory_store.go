package autoregister

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// MemoryStore is a Store without an API server. Its entries belong to this replica and are emitted
// as a source of configuration. With [OpenMemoryStore] they are also written to a file. If the file
// cannot be written, a change returns an error but stays in memory: a full disk must not take
// endpoints from the mesh, or keep dead ones. The next change writes the file with all entries.
type MemoryStore struct {
	now func() time.Time
	// file is the path for the entries; "" if they are not written.
	file string

	mu      sync.Mutex
	version uint64
	entries map[entryKey]*memoryEntry
	// changed contains the entries with events to emit.
	changed map[entryKey]struct{}
	wake    notify.Wake // wakes Run
}

type memoryEntry struct {
	Entry
	created time.Time
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty MemoryStore without a file.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{
		now:     time.Now,
		entries: map[entryKey]*memoryEntry{},
		changed: map[entryKey]struct{}{},
		wake:    notify.NewWake(),
	}
}

// Name returns the name of the source.
func (m *MemoryStore) Name() string { return "workloads" }

// Run emits all entries, Synced, and then each change, until ctx ends, when it returns nil. If
// called again, it emits only the changes since, and Synced. Changes made since the last emission
// are emitted together. It returns an error if an entry cannot be encoded.
func (m *MemoryStore) Run(ctx context.Context, out chan<- mesh.Batch) error {
	batch, err := m.drainChanges()
	if err != nil {
		return err
	}
	batch = append(batch, mesh.Event{Op: mesh.Synced, Source: m.Name()})
	for {
		if len(batch) > 0 {
			select {
			case <-ctx.Done():
				return nil
			case out <- batch:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake.C():
		}
		if batch, err = m.drainChanges(); err != nil {
			return err
		}
	}
}

// drainChanges returns the events of entries that changed since the last call, in no particular
// order, and forgets the changes. It returns an error, and forgets none, if an entry cannot be
// encoded. An entry is healthy if its condition is True. m.mu must not be held.
func (m *MemoryStore) drainChanges() (mesh.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var batch mesh.Batch
	for k := range m.changed {
		key := config.Key{Kind: api.WorkloadEntry, Namespace: k.namespace, Name: k.name}
		e := m.entries[k]
		if e == nil {
			batch = append(
				batch,
				mesh.Event{Op: mesh.Delete, Source: m.Name(), Config: &config.Config{Meta: config.Meta{Key: key}}},
			)
			continue
		}
		meta := config.Meta{
			Key:             key,
			Labels:          e.Labels,
			Annotations:     e.Annotations,
			Created:         e.created,
			ResourceVersion: e.Version,
			Origin:          "registered",
		}
		if c := findHealthCondition(e.Conditions); c != nil && c["status"] == "True" {
			meta.Status = &config.Status{Healthy: true}
		}
		c, err := config.New(meta, e.Spec)
		if err != nil {
			return nil, err
		}
		batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: m.Name(), Config: c})
	}
	clear(m.changed)
	return batch, nil
}

// setEntry stores an entry with a new version, or deletes it if e is nil, and wakes up Run. It does
// not write the file. MemoryStore.mu must be held.
func (m *MemoryStore) setEntry(k entryKey, e *memoryEntry) {
	if e == nil {
		delete(m.entries, k)
	} else {
		m.version++
		e.Version = strconv.FormatUint(m.version, 10)
		m.entries[k] = e
	}
	m.changed[k] = struct{}{}
	m.wake.Notify()
}

// Get returns a copy of an entry, or nil if there is none. The error is always nil.
func (m *MemoryStore) Get(_ context.Context, namespace, name string) (*Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[entryKey{namespace, name}]
	if e == nil {
		return nil, nil
	}
	out := e.clone().Entry
	return &out, nil
}

// clone returns a copy of the entry that shares only the contents of its conditions.
func (e *memoryEntry) clone() *memoryEntry {
	next := *e
	next.Labels, next.Annotations = maps.Clone(e.Labels), maps.Clone(e.Annotations)
	next.Conditions = slices.Clone(e.Conditions)
	next.Spec, _ = proto.Clone(e.Spec).(*networking.WorkloadEntry)
	return &next
}

// Create stores a copy of e. It returns ErrConflict if the entry exists. If the file cannot be
// written, it returns that error, but the entry stays stored.
func (m *MemoryStore) Create(_ context.Context, e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := entryKey{e.Namespace, e.Name}
	if m.entries[k] != nil {
		return ErrConflict
	}
	m.setEntry(k, (&memoryEntry{Entry: *e, created: m.now()}).clone())
	return m.writeFile()
}

// update applies change to a copy of an entry, which then replaces it, and writes the file. It
// returns ErrConflict if the entry changed since e was read, or is gone. If the file cannot be
// written, it returns that error, but the change stays.
func (m *MemoryStore) update(e *Entry, change func(*memoryEntry)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := entryKey{e.Namespace, e.Name}
	is := m.entries[k]
	if is == nil || is.Version != e.Version {
		return ErrConflict
	}
	next := is.clone()
	change(next)
	m.setEntry(k, next)
	return m.writeFile()
}

// Annotate sets the annotations whose value is a string, and removes the ones with any other value,
// such as nil. It returns ErrConflict if the entry is gone or not in e's version. If the file
// cannot be written, it returns that error, but the change stays.
func (m *MemoryStore) Annotate(_ context.Context, e *Entry, annotations map[string]any) error {
	return m.update(e, func(is *memoryEntry) {
		for name, value := range annotations {
			if text, ok := value.(string); ok {
				is.Annotations[name] = text
			} else {
				delete(is.Annotations, name)
			}
		}
	})
}

// SetConditions replaces the conditions of an entry. It returns ErrConflict if the entry is not in
// e's version.
func (m *MemoryStore) SetConditions(_ context.Context, e *Entry, conditions []any) error {
	return m.update(e, func(is *memoryEntry) { is.Conditions = conditions })
}

// Delete deletes an entry. It returns ErrConflict if the entry changed since the caller has read
// it, and nil if it is gone. If the file cannot be written, it returns that error, but the entry
// stays deleted.
func (m *MemoryStore) Delete(_ context.Context, e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := entryKey{e.Namespace, e.Name}
	is := m.entries[k]
	switch {
	case is == nil:
		return nil
	case is.Version != e.Version:
		return ErrConflict
	}
	m.setEntry(k, nil)
	return m.writeFile()
}
