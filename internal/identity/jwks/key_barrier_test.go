package jwks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestKeyBarrier follows a script of events in, events out, and sources wanted by held rules. An
// object's content is the names of its key sources.
func TestKeyBarrier(t *testing.T) {
	var wanted []string
	h := NewKeyBarrier(func(c *config.Config) map[mesh.KeySource]time.Duration {
		list := map[mesh.KeySource]time.Duration{}
		for _, name := range strings.Fields(c.Annotations["places"]) {
			list[mesh.KeySource{URI: name}] = 0
		}
		return list
	}, func(wants map[mesh.KeySource]time.Duration) {
		wanted = nil
		for place := range wants {
			wanted = append(wanted, place.URI)
		}
		slices.Sort(wanted)
	})
	closed := false
	for _, step := range []struct{ about, in, out, wants string }{
		{"at the start nothing is held", "rule old a", "rule old a", ""},
		{"keys pass", "keys a", "keys a", ""},
		{"then a rule without keys to fetch passes", "rule none", "rule none", ""},
		{"as does one whose keys are known", "rule first a", "rule first a", ""},
		{"a rule without keys is held, the rest of its batch passes", "rule new a b, rule none", "rule none", "a b"},
		{"keys of a rule arrive in two parts", "rule new b c", "", "b c"},
		{"the first part", "keys b", "keys b", "b c"},
		{"the second", "keys c", "keys c, rule new b c", ""},
		{"a held rule is deleted", "rule gone d", "", "d"},
		{"a passed rule is deleted", "-rule gone", "-rule gone", ""},
		{"keys arrive for a deleted rule", "keys d", "keys d", ""},
		{"keys may be forgotten", "-keys d", "-keys d", ""},
		{"and are waited for again, for two", "rule one d, rule two d", "", "d"},
		{"both have waited", "keys d", "keys d, rule one d, rule two d", ""},
		{"with the rule itself", "rule three e, keys e", "keys e, rule three e", ""},
	} {
		if step.in == "rule none" && !closed {
			h.StartHolding()
			closed = true
		}
		wanted = nil
		if diff := cmp.Diff(step.out, spell(h.Convert(events(step.in)))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.about, diff)
		}
		if got := strings.Join(wanted, " "); got != step.wants && !(step.wants != "" && wanted == nil) {
			t.Errorf("%s: requested keys = %q, want %q", step.about, got, step.wants)
		}
	}
}

func events(text string) mesh.Batch {
	var batch mesh.Batch
	for part := range strings.SplitSeq(text, ", ") {
		words := strings.Fields(part)
		e := mesh.Event{}
		if strings.HasPrefix(words[0], "-") {
			e.Op = mesh.Delete
		}
		if strings.HasSuffix(words[0], "keys") {
			e.KeySet = &mesh.KeySet{Source: mesh.KeySource{URI: words[1]}}
		} else {
			meta := config.Meta{
				Key:         config.Key{Name: words[1]},
				Annotations: map[string]string{"places": strings.Join(words[2:], " ")},
			}
			e.Config = &config.Config{Meta: meta}
		}
		batch = append(batch, e)
	}
	return batch
}

func spell(batch mesh.Batch) string {
	var list []string
	for _, e := range batch {
		text := ""
		if e.Op == mesh.Delete {
			text = "-"
		}
		if e.KeySet != nil {
			text += "keys " + e.KeySet.Source.URI
		} else {
			text = strings.TrimSpace(text + "rule " + e.Config.Name + " " + e.Config.Annotations["places"])
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
