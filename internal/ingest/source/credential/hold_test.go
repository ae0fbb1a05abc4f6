package credential

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestHold follows a script: what comes in, what goes out, and which Secrets are asked for, "same"
// for no news. An object is "plugin", its name, and the Secret that it names.
func TestHold(t *testing.T) {
	asked := "same"
	h := NewSecretHold(func(c *config.Config) (config.Key, bool) {
		name := c.Annotations["secret"]
		return config.Key{Kind: api.Secret, Namespace: "ns", Name: name}, c.Kind == api.WasmPlugin && name != ""
	}, func(list []config.Key) {
		names := []string{}
		for _, k := range list {
			names = append(names, k.Name)
		}
		asked = strings.Join(names, " ")
	})
	for _, step := range []struct{ about, in, out, asked string }{
		{"at the start nothing is held", "plugin old a", "plugin old a", "a"},
		{"", "close", "", "same"},
		{"a plugin without a Secret passes", "plugin none", "plugin none", "same"},
		{"one whose Secret is not known does not, what comes with it does", "plugin new b, plugin none", "plugin none", "a b"},
		{"its Secret comes", "secret b", "secret b, plugin new b", "same"},
		{"a new version passes, for the Secret is known", "plugin new b", "plugin new b", "same"},
		{"one names another, which cannot be had", "plugin new c", "", "a c"},
		{"which is known after a time", "settled c", "plugin new c", "same"},
		{"what is held may go", "plugin gone d", "", "a c d"},
		{"and does", "-plugin gone", "-plugin gone", "a c"},
		{"a Secret that nobody names passes", "secret d", "secret d", "same"},
		{"and is waited for all the same", "plugin again d, plugin too d", "", "a c d"},
		{"by both", "settled d", "plugin again d, plugin too d", "same"},
		{"a Secret that goes stays known", "-secret d, plugin again d", "-secret d, plugin again d", "same"},
		{"who names none any more asks for none", "plugin new, -plugin old", "plugin new, -plugin old", "d"},
	} {
		if step.in == "close" {
			h.StartHolding()
			continue
		}
		asked = "same"
		if got := spell(h.Convert(eventsOf(step.in))); got != step.out {
			t.Errorf("%s: out comes %q, want %q", step.about, got, step.out)
		}
		if asked != step.asked {
			t.Errorf("%s: asks for %q, want %q", step.about, asked, step.asked)
		}
	}
}

func eventsOf(text string) (batch mesh.Batch) {
	for one := range strings.SplitSeq(text, ", ") {
		e := mesh.Event{}
		if rest, gone := strings.CutPrefix(one, "-"); gone {
			one, e.Op = rest, mesh.Delete
		}
		words := append(strings.Fields(one), "")
		kind, name, secret := words[0], words[1], words[2]
		switch kind {
		case "settled":
			e = SecretSettled(config.Key{Kind: api.Secret, Namespace: "ns", Name: name})
		case "secret":
			e.Config = &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Secret, Namespace: "ns", Name: name}}}
		default:
			e.Config = &config.Config{Meta: config.Meta{
				Key: config.Key{Kind: api.WasmPlugin, Namespace: "ns", Name: name}, Annotations: map[string]string{"secret": secret},
			}}
		}
		batch = append(batch, e)
	}
	return batch
}

func spell(batch mesh.Batch) string {
	var list []string
	for _, e := range batch {
		sign, kind := "", "plugin"
		if e.Op == mesh.Delete {
			sign = "-"
		}
		if e.Config.Kind == api.Secret {
			kind = "secret"
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s%s %s %s", sign, kind, e.Config.Name, e.Config.Annotations["secret"])))
	}
	return strings.Join(list, ", ")
}
