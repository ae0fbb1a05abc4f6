package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

func TestEmitterDropsUnchangedEvents(t *testing.T) {
	type change = registry.Change[string, string]
	e := registry.NewEmitter[string](strings.EqualFold)
	e.Delete("a")
	if got := e.Drain(); len(got) != 0 {
		t.Fatalf("a Delete of an unknown key emits %+v", got)
	}
	e.Set("a", "x")
	e.Set("b", "y")
	want := []change{{Key: "a", HasNew: true, New: "x"}, {Key: "b", HasNew: true, New: "y"}}
	if diff := cmp.Diff(want, e.Drain()); diff != "" {
		t.Fatalf("new values (-want +got):\n%s", diff)
	}
	e.Set("a", "X") // equal, and kept
	if got := e.Drain(); len(got) != 0 || e.Value("a") != "X" {
		t.Fatalf("an equal value emits %+v; %q is kept", got, e.Value("a"))
	}
	e.Set("a", "z")
	e.Delete("b")
	want = []change{
		{Key: "a", HasOld: true, Old: "X", HasNew: true, New: "z"},
		{Key: "b", HasOld: true, Old: "y"},
	}
	if diff := cmp.Diff(want, e.Drain()); diff != "" {
		t.Fatalf("a changed and a deleted value (-want +got):\n%s", diff)
	}
	if got := e.Drain(); len(got) != 0 || e.Value("b") != "" {
		t.Fatalf("after Drain: %+v, %q", got, e.Value("b"))
	}
}
