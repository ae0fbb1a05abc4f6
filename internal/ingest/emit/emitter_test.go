package emit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestEmitterDropsUnchangedEvents(t *testing.T) {
	type change = emit.Change[string, string]
	e := emit.NewEmitter[string](strings.EqualFold)
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

// TestReplaceClearsOtherScopes checks that Replace emits only the scopes whose Problems differ, and
// clears those without Problems.
func TestReplaceClearsOtherScopes(t *testing.T) {
	e := emit.NewProblemEmitter("source", func(k string) string { return "scope " + k })
	list := func(reason string) []config.Problem { return []config.Problem{{Reason: reason}} }
	event := func(scope string, list []config.Problem) mesh.Event {
		return mesh.Event{Source: "source", Problems: &mesh.Problems{Scope: scope, List: list}}
	}
	e.Replace(nil, map[string][]config.Problem{"a": list("1"), "b": list("2"), "c": list("3"), "d": list("4")})
	got := e.Replace(nil, map[string][]config.Problem{"e": list("5"), "c": list("4"), "b": list("2"), "d": nil})
	want := mesh.Batch{
		event("scope a", nil), event("scope c", list("4")), event("scope d", nil), event("scope e", list("5")),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("changed scopes (-want +got):\n%s", diff)
	}
	if got := e.Replace(nil, map[string][]config.Problem{"b": list("2"), "c": list("4"), "e": list("5")}); got != nil {
		t.Errorf("equal Problems emit %+v", got)
	}
}
