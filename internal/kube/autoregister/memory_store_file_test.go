package autoregister

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestFileCannotBeWritten: changes stay in memory, and the next change after the failure writes
// all of them.
func TestFileCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	file := filepath.Join(dir, "workloads.json")
	m, err := OpenMemoryStore(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // not a directory
		t.Fatal(err)
	}
	entry := func(name string) *Entry {
		spec := &networking.WorkloadEntry{Address: "10.0.0.9"}
		return &Entry{Namespace: "vms", Name: name, Annotations: map[string]string{}, Spec: spec}
	}
	read := func(m *MemoryStore, name string) *Entry {
		t.Helper()
		e, err := m.Get(t.Context(), "vms", name)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, name := range []string{"a", "b"} {
		if err := m.Create(t.Context(), entry(name)); err == nil || errors.Is(err, ErrConflict) {
			t.Errorf("creating %s: error %v, want one of the file", name, err)
		}
	}
	if err := m.Delete(t.Context(), read(m, "b")); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("deleting b: error %v, want one of the file", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Annotate(t.Context(), read(m, "a"), map[string]any{"x": "y"}); err != nil {
		t.Fatal(err)
	}
	again, err := OpenMemoryStore(file)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := read(again, "a"), read(again, "b"); a == nil || a.Annotations["x"] != "y" || b != nil {
		t.Errorf("the file has the entries %v and %v, want only a", a, b)
	}
}

// TestMemoryOutlivesItsProcess: the entries in the file are loaded and emitted before the source is
// in sync.
func TestMemoryOutlivesItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca", "workloads.json")
	open := func() *MemoryStore {
		t.Helper()
		m, err := OpenMemoryStore(file)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	for _, name := range []string{"a", "b"} {
		e := &Entry{
			Namespace:   "vms",
			Name:        name,
			Labels:      map[string]string{"app": "vm"},
			Annotations: map[string]string{"x": "y"},
			Spec:        &networking.WorkloadEntry{Address: "10.0.0.9"},
		}
		if err := m.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := m.Get(t.Context(), "vms", "a")
	b, errB := m.Get(t.Context(), "vms", "b")
	if err := errors.Join(
		errA,
		errB,
		m.Delete(t.Context(), b),
		m.SetConditions(t.Context(), a, []any{map[string]any{"type": "Healthy", "status": "True"}}),
	); err != nil {
		t.Fatal(err)
	}

	want, err := m.Get(t.Context(), "vms", "a")
	if err != nil {
		t.Fatal(err)
	}
	again := open()
	got, err := again.Get(t.Context(), "vms", "a")
	if err != nil {
		t.Fatal(err)
	}
	want.Version, got.Version = "", ""
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}
	if gone, err := again.Get(t.Context(), "vms", "b"); gone != nil || err != nil {
		t.Errorf("the deleted entry is %v, %v", gone, err)
	}
	out := make(chan mesh.Batch)
	go func() { _ = again.Run(t.Context(), out) }()
	first := <-out
	if len(first) != 2 || first[0].Config == nil || first[0].Config.Status == nil || !first[0].Config.Status.Healthy ||
		first[1].Op != mesh.Synced {
		t.Errorf("the first batch is %+v", first)
	}

	if err := os.WriteFile(file, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := OpenMemoryStore(file); err == nil {
		t.Errorf("a store of an invalid file = %v", m)
	}
}
