package helmvalues

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the schemas, templates and docs/HELM-VALUES.md") //nolint:gochecknoglobals // a flag

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not derived from the tables; run go test ./manifests/helmvalues -update\n%s", path, diff)
	}
}

func tableOf(t *testing.T, chart string) []Value {
	t.Helper()
	list, err := Values(chart)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTablesHaveIstiosValues: each value that a release of Istio's charts has is in the table of its
// chart, and no other one is, unless it is marked as own.
func TestTablesHaveIstiosValues(t *testing.T) {
	for _, chart := range Charts() {
		recorded := istioNames(t, chart)
		if len(recorded) < 15 {
			t.Fatalf("%s: only %d recorded names", chart, len(recorded))
		}
		var names []string
		for _, v := range tableOf(t, chart) {
			if slices.Contains(names, v.Name) {
				t.Errorf("%s: %s has two rows", chart, v.Name)
			}
			names = append(names, v.Name)
			if v.Own == slices.Contains(recorded, v.Name) {
				t.Errorf("%s: %s: own is %t", chart, v.Name, v.Own)
			}
		}
		for _, name := range recorded {
			if !slices.Contains(names, name) {
				t.Errorf("%s: %s has no row", chart, name)
			}
		}
	}
}

// istioNames returns the recorded names of the values of Istio's chart.
func istioNames(t *testing.T, chart string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/istio-*/" + chart + ".txt")
	if err != nil || len(files) != 1 {
		t.Fatalf("recorded names of %s: %v %v", chart, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// TestDefaultsAreInTheTables: values.yaml sets nothing that its schema would not accept, and no
// rejected value.
func TestDefaultsAreInTheTables(t *testing.T) {
	for _, chart := range Charts() {
		defaults := defaultsOf(t, chart)
		findings, err := Check(chart, defaults)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			t.Errorf("%s: values.yaml: %+v", chart, f)
		}
		for _, v := range tableOf(t, chart) {
			if set, ok := lookup(defaults, v.Name); ok && v.Rejected != "" {
				t.Errorf("%s: values.yaml sets %s=%v, which is rejected", chart, v.Name, set)
			}
		}
	}
}

func defaultsOf(t *testing.T, chart string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../charts/" + chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatalf("%s: %v", chart, err)
	}
	if len(all) != 1 {
		t.Errorf("%s: values.yaml has keys beside %s", chart, internalDefaults)
	}
	return all[internalDefaults]
}

func lookup(values map[string]any, name string) (any, bool) {
	var at any = values
	for key := range strings.SplitSeq(name, ".") {
		level, _ := at.(map[string]any)
		next, ok := level[key]
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}

// TestCheck has a case for each kind of finding.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, chart, values, want string }{
		{"honoured", "istiod", "{global: {configValidation: false}, pdb: {minAvailable: 2}, pilot: {env: {A: b}}}", ""},
		{"a typing error", "istiod", "{pdb: {minAvalable: 2}}", "pdb.minAvalable ~maxUnavailable,minAvailable,unhealthyPodEvictionPolicy"},
		{"below pilot", "istiod", "{pilot: {autoScaleMin: 2}}", "autoScaleMin ~affinity,autoscaleBehavior,autoscaleEnabled,autoscaleMax,autoscaleMin"},
		{"rejected", "cni", "{ambient: {enabled: true}}", "ambient.enabled: ambient mode is not supported: workloads get sidecars"},
		{"Istio's default", "cni", "{ambient: {enabled: false}, taint: null}", "taint ~tag,terminationGracePeriodSeconds,tolerations"},
		{"one of its values", "istiod", "{profile: ambient}", "profile: ambient mode is not supported: workloads get sidecars"},
		{"global of another chart", "gateway", "{global: {hub: a, hubb: b}}", "global.hubb ~hub"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			findings, err := Check(c.chart, values)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				line := f.Name
				if f.Reason != "" {
					line += ": " + f.Reason
				} else {
					line += " ~" + strings.Join(f.Similar, ",")
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Check("ztunnel", nil); err == nil {
		t.Error("a chart that does not exist has no error")
	}
}

// TestDocument: docs/HELM-VALUES.md is derived from the tables and the charts' defaults.
func TestDocument(t *testing.T) {
	head, err := os.ReadFile("testdata/head.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(head)
	for _, chart := range Charts() {
		defaults := defaultsOf(t, chart)
		fmt.Fprintf(&b, "\n## Chart %s\n\n| value | default | support |\n|---|---|---|\n", chart)
		for _, v := range tableOf(t, chart) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, defaultText(t, defaults, v.Name), supportText(v))
		}
	}
	expectFile(t, "../../docs/HELM-VALUES.md", b.String())
}

func defaultText(t *testing.T, defaults map[string]any, name string) string {
	t.Helper()
	set, ok := lookup(defaults, name)
	if !ok || set == nil || fmt.Sprint(set) == "" {
		return ""
	}
	text, err := yaml.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSpace(string(text))
	if strings.Contains(line, "\n") || len(line) > 40 {
		return "set"
	}
	return "`" + line + "`"
}

func supportText(v Value) string {
	parts := []string{"honoured"}
	switch {
	case v.Rejected != "":
		parts = []string{"**rejected**: " + v.Rejected}
	case v.Unchanged != "":
		parts = []string{"accepted: " + v.Unchanged}
	case v.Own:
		parts = []string{"honoured (not in Istio's chart)"}
	}
	for _, value := range v.Enum {
		if value == "" || v.Rejected != "" {
			continue
		}
		parts = append(parts, fmt.Sprintf("`%v`", value))
	}
	line := strings.Join(parts, " ")
	if v.Note != "" {
		line += "; " + v.Note
	}
	reasons := map[string][]string{}
	for value, reason := range v.RejectedValues {
		reasons[reason] = append(reasons[reason], "`"+value+"`")
	}
	var rejected []string
	for reason, values := range reasons {
		slices.Sort(values)
		rejected = append(rejected, strings.Join(values, ", ")+" rejected: "+reason)
	}
	slices.Sort(rejected)
	return strings.Join(append([]string{line}, rejected...), "; ")
}
