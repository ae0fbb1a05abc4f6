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

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Memory is a Store without an API server: entries are of this replica alone, and a source of config. With [OpenMemory] they are
// kept in a file besides.
type Memory struct {
	now func() time.Time
	// file is where entries are kept, "" for nowhere.
	file string

	mu      sync.Mutex
	version uint64
	entries map[entryKey]*held
	// changed are those that the mesh does not know yet as they are.
	changed map[entryKey]struct{}
	wake    chan struct{} // holds one token
}

type held struct {
	Entry
	created time.Time
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty Store.
func NewMemory() *Memory {
	return &Memory{now: time.Now, entries: map[entryKey]*held{}, changed: map[entryKey]struct{}{}, wake: make(chan struct{}, 1)}
}

// Name names it as a source.
func (m *Memory) Name() string { return "workloads" }

// Run tells the mesh of entries until the context ends.
func (m *Memory) Run(ctx context.Context, out chan<- mesh.Batch) error {
	batch, err := m.take()
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
		case <-m.wake:
		}
		if batch, err = m.take(); err != nil {
			return err
		}
	}
}

// take gives the events of the entries that changed since it was last called.
func (m *Memory) take() (mesh.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var batch mesh.Batch
	for k := range m.changed {
		key := config.Key{Kind: api.WorkloadEntry, Namespace: k.namespace, Name: k.name}
		e := m.entries[k]
		if e == nil {
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: m.Name(), Config: &config.Config{Meta: config.Meta{Key: key}}})
			continue
		}
		meta := config.Meta{
			Key: key, Labels: e.Labels, Annotations: e.Annotations, Created: e.created, ResourceVersion: e.Version, Origin: "registered",
		}
		if c := healthIn(e.Conditions); c != nil && c["status"] == "True" {
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

// set puts an entry in, or takes one out. Memory.mu is held.
func (m *Memory) set(k entryKey, e *held) {
	if e == nil {
		delete(m.entries, k)
	} else {
		m.version++
		e.Version = strconv.FormatUint(m.version, 10)
		m.entries[k] = e
	}
	m.changed[k] = struct{}{}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Get gives an entry.
func (m *Memory) Get(_ context.Context, namespace, name string) (*Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[entryKey{namespace, name}]
	if e == nil {
		return nil, nil
	}
	out := e.copied().Entry
	return &out, nil
}

func (e *held) copied() *held {
	next := *e
	next.Labels, next.Annotations, next.Conditions = maps.Clone(e.Labels), maps.Clone(e.Annotations), slices.Clone(e.Conditions)
	next.Spec, _ = proto.Clone(e.Spec).(*networking.WorkloadEntry)
	return &next
}

// Create makes an entry.
func (m *Memory) Create(_ context.Context, e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := entryKey{e.Namespace, e.Name}
	if m.entries[k] != nil {
		return ErrConflict
	}
	m.set(k, (&held{Entry: *e, created: m.now()}).copied())
	return m.save()
}

// change edits an entry; ErrConflict if it is not as the caller has read it any more.
func (m *Memory) change(e *Entry, f func(*held) *held) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := entryKey{e.Namespace, e.Name}
	is := m.entries[k]
	if is == nil || is.Version != e.Version {
		return ErrConflict
	}
	m.set(k, f(is.copied()))
	return m.save()
}

// Annotate changes annotations.
func (m *Memory) Annotate(_ context.Context, e *Entry, annotations map[string]any) error {
	return m.change(e, func(is *held) *held {
		for name, value := range annotations {
			if text, ok := value.(string); ok {
				is.Annotations[name] = text
			} else {
				delete(is.Annotations, name)
			}
		}
		return is
	})
}

// SetConditions replaces the conditions.
func (m *Memory) SetConditions(_ context.Context, e *Entry, conditions []any) error {
	return m.change(e, func(is *held) *held { is.Conditions = conditions; return is })
}

// Delete takes an entry away; ErrConflict if it is not as the caller has read it any more.
func (m *Memory) Delete(_ context.Context, e *Entry) error {
	return m.change(e, func(*held) *held { return nil })
}
