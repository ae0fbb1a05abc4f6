package ingest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

func TestPrecedence(t *testing.T) {
	first, second, third := script{name: "first"}, script{name: "second"}, script{name: "third"}
	p := newPrecedence([]Feed{first, second, third})
	b := snapshot.NewBuilder(snapshot.Options{})
	key := config.Key{Kind: api.Sidecar, Namespace: "ns", Name: "a"}
	version := uint64(0)
	put := func(feed script) mesh.Event {
		version++
		return mesh.Event{Source: feed.name, Config: &config.Config{Meta: config.Meta{Key: key, Origin: "in " + feed.name}, Hash: version}}
	}
	remove := func(feed script) mesh.Event {
		return mesh.Event{Op: mesh.Delete, Source: feed.name, Config: &config.Config{Meta: config.Meta{Key: key}}}
	}
	unused := func(feed, counts string) string {
		return "Sidecar/ns/a (in " + feed + "): is also in in " + counts + ", which takes precedence; this one is not used"
	}
	for _, step := range []struct {
		shows    string
		event    mesh.Event
		counts   string
		problems []string
	}{
		{"alone", put(second), "in second", nil},
		{"a later object is unused", put(third), "in second", []string{unused("third", "second")}},
		{"an earlier object replaces it", put(first), "in first", []string{unused("second", "first"), unused("third", "first")}},
		{"an unused object is changed", put(second), "in first", []string{unused("second", "first"), unused("third", "first")}},
		{"the next takes its place", remove(first), "in second", []string{unused("third", "second")}},
		{"an unused object is deleted", remove(third), "in second", nil},
		{"an unknown object is deleted", remove(third), "in second", nil},
		{"the last object is deleted", remove(second), "", nil},
	} {
		s, _ := b.Apply(p.resolve(mesh.Batch{step.event}, new(registry.Guard))...)
		counts := ""
		if c := s.Config(key); c != nil {
			counts = c.Origin
		}
		var problems []string
		for _, x := range s.Problems() {
			problems = append(problems, x.String())
		}
		if counts != step.counts {
			t.Errorf("%s: used object = %q, want %q", step.shows, counts, step.counts)
		}
		if diff := cmp.Diff(step.problems, problems); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", step.shows, diff)
		}
	}
	if len(p.candidates) > 0 {
		t.Errorf("%v is remembered of nothing", p.candidates)
	}
}
