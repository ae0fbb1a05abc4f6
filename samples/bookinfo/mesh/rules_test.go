package mesh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestRules(t *testing.T) {
	dir := t.TempDir()
	manifests := fstest.MapFS{"pods.yaml": {Data: []byte("kind: Pod\n")}}
	rules, err := newRules(filepath.Join(dir, "config"), filepath.Join(dir, "staging"), manifests)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(text string) func() error { return func() error { return rules.Apply(text) } }
	const vs1 = "kind: VirtualService\nmetadata:\n  name: a\nspec: {x: 1}\n"
	const vs2 = "kind: VirtualService\nmetadata:\n  name: a\nspec: {x: 2}\n"
	const dr = "kind: DestinationRule\nmetadata:\n  name: a\n  namespace: default\nspec: {q: 1}\n"
	const other = "kind: VirtualService\nmetadata:\n  name: a\n  namespace: shop\nspec: {z: 1}\n"
	for _, step := range []struct {
		name string
		do   func() error
		want map[string]string // file to the values in it, in order
	}{
		{"a first object", apply(vs1), map[string]string{"default.a.yaml": "x: 1"}},
		{"another of its name beside it", apply(dr), map[string]string{"default.a.yaml": "x: 1 q: 1"}},
		{"one replaced, one in another namespace", apply("# comment\n---\n" + vs2 + "---\n" + other),
			map[string]string{"default.a.yaml": "x: 2 q: 1", "shop.a.yaml": "z: 1"}},
		{"one deleted", func() error { return rules.Delete("VirtualService", "a") },
			map[string]string{"default.a.yaml": "q: 1", "shop.a.yaml": "z: 1"}},
		{"the last of a file deleted", func() error { return rules.Delete("DestinationRule", "a") },
			map[string]string{"shop.a.yaml": "z: 1"}},
		{"all cleared", rules.Clear, map[string]string{}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, values(t, filepath.Join(dir, "config/networking"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "config/platform/pods.yaml")); err != nil {
		t.Error(err)
	}
}

// values reads the one-letter fields of all files.
func values(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); len(line) > 2 && line[1] == ':' {
				found = append(found, line)
			}
		}
		all[e.Name()] = strings.Join(found, " ")
	}
	return all
}

func TestRulesRefuse(t *testing.T) {
	rules, err := newRules(t.TempDir(), t.TempDir(), fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"kind: VirtualService\n":                   "needs a kind and a name",
		"metadata: {name: a}\n":                    "needs a kind and a name",
		"kind: A\nmetadata: {name: ../a}\n":        "needs a kind and a name",
		"kind: A\nmetadata: {name: a}\nspek: {}\n": "spek",
		"kind: [\n": "applying rules",
	} {
		if err := rules.Apply(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Apply(%q): %v, want an error with %q", text, err, want)
		}
	}
	if err := rules.Delete("VirtualService", "a"); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("Delete of nothing: %v", err)
	}
}
