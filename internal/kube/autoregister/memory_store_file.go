package autoregister

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"
)

// storedEntry is the JSON form of an entry in the file of a MemoryStore.
type storedEntry struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Created     time.Time         `json:"created"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec"`
	Conditions  []any             `json:"conditions,omitempty"`
}

// memoryFile is the name of the file of a MemoryStore in the directory of the control plane.
const memoryFile = "registered-workloads.json"

// OpenMemoryStoreIn returns a MemoryStore whose entries are stored in a file of a directory, so
// that they survive a restart. With dir "" the store is empty and has no file. If the file is
// unreadable or invalid, OpenMemoryStoreIn logs a warning and returns such a store too, because
// workloads register again.
func OpenMemoryStoreIn(dir string, log *slog.Logger) *MemoryStore {
	if dir == "" {
		return NewMemoryStore()
	}
	m, err := OpenMemoryStore(filepath.Join(dir, memoryFile))
	if err != nil {
		log.Warn("workloads that were registered before are not known", "error", err)
		return NewMemoryStore()
	}
	return m
}

// OpenMemoryStore returns a MemoryStore with the entries in file, which is created with the first
// entry. It returns an error if the file is unreadable or invalid. Without the file, workloads
// would lose their endpoints when the control plane restarts, until they reconnect.
func OpenMemoryStore(file string) (*MemoryStore, error) {
	m := NewMemoryStore()
	m.file = file
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load registered workloads: %w", err)
	}
	var list []storedEntry
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("load registered workloads: file %q: %w", file, err)
	}
	for _, k := range list {
		e := &memoryEntry{created: k.Created, Entry: Entry{
			Namespace:   k.Namespace,
			Name:        k.Name,
			Labels:      k.Labels,
			Annotations: k.Annotations,
			Conditions:  k.Conditions,
			Spec:        new(networking.WorkloadEntry),
		}}
		if err := protojson.Unmarshal(k.Spec, e.Spec); err != nil {
			return nil, fmt.Errorf("load registered workloads: file %q: entry %s/%s: %w", file,
				k.Namespace, k.Name, err)
		}
		if e.Annotations == nil {
			e.Annotations = map[string]string{}
		}
		m.setEntry(entryKey{k.Namespace, k.Name}, e)
	}
	return m, nil
}

// writeFile writes all entries to the file atomically. It does nothing if the store has no file.
// MemoryStore.mu must be held. The entries are sorted; the file is readable for its owner only.
func (m *MemoryStore) writeFile() error {
	if m.file == "" {
		return nil
	}
	list := []storedEntry{}
	byName := func(a, b entryKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	}
	for _, key := range slices.SortedFunc(maps.Keys(m.entries), byName) {
		e := m.entries[key]
		spec, err := protojson.Marshal(e.Spec)
		if err != nil {
			return fmt.Errorf("write registered workloads: %w", err)
		}
		list = append(list, storedEntry{
			Namespace:   e.Namespace,
			Name:        e.Name,
			Created:     e.created,
			Labels:      e.Labels,
			Annotations: e.Annotations,
			Spec:        spec,
			Conditions:  e.Conditions,
		})
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("write registered workloads: %w", err)
	}
	next := m.file + ".new"
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.file), 0o700), os.WriteFile(next, text, 0o600)); err != nil {
		return fmt.Errorf("write registered workloads: %w", err)
	}
	if err := os.Rename(next, m.file); err != nil {
		return fmt.Errorf("write registered workloads: %w", err)
	}
	return nil
}
