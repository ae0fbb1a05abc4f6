package migration

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

var update = flag.Bool("update", false, "rewrite the table of docs/adr/0007") //nolint:gochecknoglobals // a flag

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example has two installations: a difference applies to the first, and not to the second.
type example struct {
	Applies []map[string]any `json:"applies"`
	Other   []map[string]any `json:"other"`
}

// TestExamples evaluates the selectors of each difference with its two examples.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("testdata/examples.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var examples map[string]example
	if err := yaml.UnmarshalStrict(text, &examples); err != nil {
		t.Fatal(err)
	}
	sections, err := Sections()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		for _, d := range s.Differences {
			if len(d.Applies) == 0 {
				continue
			}
			e, ok := examples[d.ID]
			delete(examples, d.ID)
			if !ok {
				t.Errorf("%s has no example", d.ID)
				continue
			}
			if list := findingsOf(t, d, e.Applies); len(list) == 0 {
				t.Errorf("%s does not apply to its example", d.ID)
			} else if list[0].Line == 0 || list[0].Object == "" || list[0].Field == "" {
				t.Errorf("%s: a finding without position: %+v", d.ID, list[0])
			}
			if list := findingsOf(t, d, e.Other); len(list) > 0 {
				t.Errorf("%s applies to the other example: %s", d.ID, list[0].Field)
			}
		}
	}
	for id := range examples {
		t.Errorf("no difference %s", id)
	}
}

// findingsOf returns the findings of one difference in an installation.
func findingsOf(t *testing.T, d Difference, installation []map[string]any) []Finding {
	t.Helper()
	var file strings.Builder
	for _, o := range installation {
		text, err := yaml.Marshal(completeObject(t, o))
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString("---\n" + string(text))
	}
	r := newRun(lint.Validate([]lint.File{{Name: "mesh.yaml", Text: []byte(file.String())}}).Documents, nil)
	if len(r.subjects) < len(installation) {
		t.Fatalf("%s: %d of %d objects were read", d.ID, len(r.subjects), len(installation))
	}
	r.addDifferences([]Section{{Differences: []Difference{d}}})
	return r.findings
}

// completeObject returns an object of an example with its apiVersion and name. For settings it
// returns the ConfigMap or Deployment of istiod that has them.
func completeObject(t *testing.T, o map[string]any) map[string]any {
	t.Helper()
	for key, name := range map[string]string{"mesh": "mesh", "networks": "meshNetworks"} {
		if settings, ok := o[key]; ok {
			text, err := yaml.Marshal(settings)
			if err != nil {
				t.Fatal(err)
			}
			return map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "istio", "namespace": "istio-system"},
				"data": map[string]any{name: string(text)},
			}
		}
	}
	if o["environment"] != nil || o["arguments"] != nil {
		return deploymentOfIstiod(o)
	}
	metadata, _ := o["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	if metadata["name"] == nil {
		metadata["name"] = "first"
	}
	o["apiVersion"] = "apps/v1"
	for _, k := range api.Kinds() {
		if string(k.Kind) == o["kind"] {
			o["kind"] = k.Kind.Name()
			o["apiVersion"] = strings.TrimPrefix(k.Group+"/"+k.Versions[0], "/")
			break
		}
	}
	return o
}

// deploymentOfIstiod returns the Deployment of istiod with the environment and arguments of an example.
func deploymentOfIstiod(o map[string]any) map[string]any {
	container := map[string]any{"name": "discovery", "image": "istio/pilot", "args": o["arguments"]}
	var variables []any
	environment, _ := o["environment"].(map[string]any)
	for name, value := range environment {
		variables = append(variables, map[string]any{"name": name, "value": value})
	}
	container["env"] = variables
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "istiod", "namespace": "istio-system"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
	}
}

// TestDocument compares the table of docs/adr/0007 with the differences.
func TestDocument(t *testing.T) {
	const path = "../../../docs/adr/0007-differences-from-istiod.md"
	const begin, end = "The default is the same output. ", "## Consequences\n"
	sections, err := Sections()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %q", path, end)
	}
	want := before + begin + "The following differences are intentional. The tables are written by\n" +
		"`go test ./internal/diagnostics/migration -update` from the files in `internal/diagnostics/migration/differences`, which also state for\n" +
		"which objects and settings of an installation each difference matters (`pilotctl check-migration`).\n\n" + Markdown(sections) + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update rewrites it):\n%s", path, diff)
	}
}

// TestInvalidDifferences refuses selectors without subject, unknown levels and invalid expressions.
func TestInvalidDifferences(t *testing.T) {
	for text, want := range map[string]string{
		`{id: a, level: severe}`:                                    `level "severe"`,
		`{id: a, applies: [{kinds: [Pod]}]}`:                        "no fields",
		`{id: a, applies: [{fields: [spec], when: "value =="}]}`:    "Syntax error",
		`{id: a, applies: [{fields: [spec], shared: "unknown.x"}]}`: "undeclared reference",
	} {
		var d Difference
		if err := yaml.UnmarshalStrict([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		if err := d.compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestSelectFields selects fields of lists, maps and keys with dots.
func TestSelectFields(t *testing.T) {
	var root any
	if err := json.Unmarshal([]byte(`{"spec": {"a": [{"b": 1}, {"c": 2}, {"b": 3}], "m": {"x.y/z": {"v": 4}, "w": {"v": 5}}}}`), &root); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"spec.a[*].b":        "spec.a[0].b=1 spec.a[2].b=3",
		"spec.m[x.y/z].v":    "spec.m[x.y/z].v=4",
		"spec.m[*].v":        "spec.m[w].v=5 spec.m[x.y/z].v=4",
		"spec.a.b":           "",
		"spec.none[*].other": "",
	} {
		var got []string
		for _, f := range selectFields(root, path) {
			got = append(got, f.path+"="+encode(f.value))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
