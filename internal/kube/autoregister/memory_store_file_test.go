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
