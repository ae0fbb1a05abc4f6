package credential

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestHold runs a script of input events, output events and requested Secrets; "same" means that
// the request is unchanged. An object is "plugin", its name, and the Secret that it names.
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
		{"an object whose Secret is unknown is held, the rest of its batch passes", "plugin new b, plugin none", "plugin none", "a b"},
		{"its Secret is added", "secret b", "secret b, plugin new b", "same"},
		{"a new version passes, for the Secret is known", "plugin new b", "plugin new b", "same"},
		{"one names another, which cannot be had", "plugin new c", "", "a c"},
		{"which is known after a time", "settled c", "plugin new c", "same"},
		{"a held object is deleted", "plugin gone d", "", "a c d"},
		{"a passed object is deleted", "-plugin gone", "-plugin gone", "a c"},
		{"an unused Secret passes", "secret d", "secret d", "same"},
		{"and a further object is held as well", "plugin again d, plugin too d", "", "a c d"},
		{"by both", "settled d", "plugin again d, plugin too d", "same"},
		{"a deleted Secret stays known", "-secret d, plugin again d", "-secret d, plugin again d", "same"},
		{"an object without a Secret requests none", "plugin new, -plugin old", "plugin new, -plugin old", "d"},
	} {
		if step.in == "close" {
			h.StartHolding()
			continue
		}
		asked = "same"
		if got := spell(h.Convert(eventsOf(step.in))); got != step.out {
			t.Errorf("%s: output = %q, want %q", step.about, got, step.out)
		}
		if asked != step.asked {
			t.Errorf("%s: requested = %q, want %q", step.about, asked, step.asked)
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
