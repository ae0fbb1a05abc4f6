package hold

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestUntil applies events "NAME VERSION" and "-NAME", releases objects that are ready, and
// compares the events that pass and the objects that are still held. Versions in ready may pass.
func TestUntil(t *testing.T) {
	ready := ""
	u := NewUntil(func(c *config.Config) bool { return strings.Contains(ready, c.ResourceVersion) })
	for _, step := range []struct{ about, in, ready, out, held string }{
		{"before Start nothing is held", "a 1", "", "a 1", ""},
		{"then a new version is held", "a 2", "", "", "a 2"},
		{"a ready object passes", "b 3", "3", "b 3", "a 2"},
		{"a newer version replaces a held one", "a 4", "", "", "a 4"},
		{"another object is held", "0 5", "", "", "0 5, a 4"},
		{"objects are released in order", "b 7", "457", "b 7, 0 5, a 4", ""},
		{"a deletion passes and replaces a held version", "a 6, -a", "", "-a", ""},
		{"and the version is not emitted later", "", "6", "", ""},
	} {
		ready = step.ready
		var out mesh.Batch
		for text := range strings.SplitSeq(step.in, ", ") {
			if text == "" {
				continue
			}
			if e := parseEvent(text); !u.Hold(e) {
				out = append(out, e)
			}
		}
		if got := formatEvents(u.Release(out)); got != step.out {
			t.Errorf("%s: %q passes, want %q", step.about, got, step.out)
		}
		var held mesh.Batch
		for c := range u.Objects() {
			held = append(held, mesh.Event{Config: c})
		}
		slices.SortFunc(held, func(a, b mesh.Event) int { return a.Config.Key.Compare(b.Config.Key) })
		if got := formatEvents(held); got != step.held {
			t.Errorf("%s: %q is held, want %q", step.about, got, step.held)
		}
		u.Start()
	}
}

func parseEvent(text string) mesh.Event {
	name, version, _ := strings.Cut(text, " ")
	e := mesh.Event{Config: &config.Config{Meta: config.Meta{ResourceVersion: version}}}
	if rest, deleted := strings.CutPrefix(name, "-"); deleted {
		name, e.Op = rest, mesh.Delete
	}
	e.Config.Key.Name = name
	return e
}

func formatEvents(batch mesh.Batch) string {
	var list []string
	for _, e := range batch {
		text := e.Config.Key.Name + " " + e.Config.ResourceVersion
		if e.Op == mesh.Delete {
			text = "-" + e.Config.Key.Name
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
