package analyzers

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

var update = flag.Bool("update", false, "rewrite testdata/cases.md") //nolint:gochecknoglobals // a flag

// now is a time at which the certificates of the inputs are valid, except for the expired one.
var now = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// defaults are objects like the ones that Istio's harness adds to each case.
const defaults = `
apiVersion: v1
kind: Pod
metadata: {name: istio-ingressgateway, namespace: istio-system, labels: {istio: ingressgateway, app: istio-ingressgateway}}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: istio-system}
spec:
  selector: {istio: ingressgateway, app: istio-ingressgateway}
  ports:
  - {name: status-port, port: 15021, targetPort: 15021}
  - {name: http2, port: 80, targetPort: 8080}
  - {name: https, port: 443, targetPort: 8443}
`

// TestIstiosCases runs the analysis on the inputs of Istio's cases. In each case it compares the
// messages that the analyzer of the case is expected to have in any case.
func TestIstiosCases(t *testing.T) {
	dir := moduleFolder(t)
	grid := readGrid(t, dir)
	reasons := readDifferences(t)
	var table strings.Builder
	found := 0
	for _, c := range grid {
		missing, extra := compare(t, dir, c, subjects(grid, c.analyzer), fieldOf(c.analyzer))
		fmt.Fprintf(&table, "| %s | %s | ", c.name, strings.Join(shortNames(c.files), ", "))
		if len(missing)+len(extra) == 0 {
			found++
			table.WriteString("found |\n")
			continue
		}
		var notes []string
		for _, x := range append(prefix("not found: ", missing), prefix("also found: ", extra)...) {
			reason := reasons[c.files[0]+" "+x]
			if reason == "" {
				t.Errorf("%s (%s): %s", c.name, strings.Join(c.files, ", "), x)
			}
			delete(reasons, c.files[0]+" "+x)
			notes = append(notes, x+" ("+reason+")")
		}
		fmt.Fprintf(&table, "deliberate: %s |\n", strings.Join(notes, "; "))
	}
	for x := range reasons {
		t.Errorf("testdata/differences.txt: no difference is named %q", x)
	}
	t.Logf("%d of %d cases have exactly Istio's messages", found, len(grid))
	want := fmt.Sprintf("%d of %d cases have exactly the messages that Istio expects.\n\n| case | input | result |\n|---|---|---|\n%s",
		found, len(grid), table.String())
	const path = "testdata/cases.md"
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update rewrites it):\n%s", path, diff)
	}
}

// moduleFolder returns the folder of Istio's analyzers in the module cache.
func moduleFolder(t *testing.T) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "istio.io/istio")
	c.Dir = "../compat/programs/istio"
	c.Env = append(os.Environ(), "GOWORK=off")
	out, err := c.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		longtest.Test(t) // the module is fetched
		c = exec.CommandContext(t.Context(), "go", "mod", "download", "istio.io/istio")
		c.Dir = "../compat/programs/istio"
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("fetch istio.io/istio: %v\n%s", err, text)
		}
		c = exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "istio.io/istio")
		c.Dir = "../compat/programs/istio"
		if out, err = c.Output(); err != nil {
			t.Fatal(err)
		}
		dir = strings.TrimSpace(string(out))
	}
	return filepath.Join(dir, "pkg/config/analysis/analyzers")
}

// subject is a code and the kind of its objects.
type subject struct{ code, kind string }

// subjects returns what the analyzer reports in any of its cases.
func subjects(grid []gridCase, analyzer string) map[subject]bool {
	set := map[subject]bool{}
	for _, c := range grid {
		if c.analyzer == analyzer {
			for _, e := range c.expected {
				kind, _, _ := strings.Cut(e.object, " ")
				set[subject{codeOf(e.message), kind}] = true
			}
		}
	}
	return set
}

// fieldOf returns a part of the paths of the references that an analyzer looks up. Several analyzers
// report missing references with one code.
func fieldOf(analyzer string) string {
	for name, field := range map[string]string{
		"gateway.IngressGatewayPortAnalyzer": "selector", "virtualservice.GatewayAnalyzer": "gateways",
		"virtualservice.DestinationRuleAnalyzer": "subset",
	} {
		if strings.Contains(analyzer, name) {
			return field
		}
	}
	return ""
}

// codeOf returns the code of Istio's message with a name, or the name if the table lacks it.
func codeOf(name string) string {
	for _, e := range code.All() {
		if e.Name == name {
			return string(e.Code)
		}
	}
	return name
}

// compare returns the messages of a case that are not found, and messages that are found and
// not expected, as "CODE Kind namespace/name", sorted and without duplicates.
func compare(t *testing.T, dir string, c gridCase, of map[subject]bool, field string) (missing, extra []string) {
	t.Helper()
	o := lint.Options{Now: now, Files: []lint.File{{Name: "defaults.yaml", Text: []byte(defaults)}}}
	for _, f := range c.files {
		o.Files = append(o.Files, readInput(t, dir, f))
	}
	if c.meshConfig != "" {
		o.MeshConfig = readInput(t, dir, c.meshConfig)
	}
	if c.meshNetworks != "" {
		o.MeshNetworks = readInput(t, dir, c.meshNetworks)
	}
	result, err := lint.Analyze(o)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	got, want := map[string]bool{}, map[string]bool{}
	for _, f := range result.Findings {
		if f.Code == code.InternalError {
			t.Errorf("%s: %s", c.name, f.Message)
		}
		if f.Code == code.ReferencedResourceNotFound && (!strings.Contains(f.Field, field) || (field == "" && strings.HasSuffix(f.Field, ".subset"))) {
			continue
		}
		if of[subject{string(f.Code), f.Key.Kind.Name()}] {
			got[fmt.Sprintf("%s %s %s/%s", f.Code, f.Key.Kind.Name(), f.Key.Namespace, f.Key.Name)] = true
		}
	}
	for _, e := range c.expected {
		want[codeOf(e.message)+" "+withNamespace(e.object)] = true
	}
	for x := range want {
		if !got[x] {
			missing = append(missing, x)
		}
	}
	for x := range got {
		if !want[x] {
			extra = append(extra, x)
		}
	}
	slices.Sort(missing)
	slices.Sort(extra)
	return missing, extra
}

// withNamespace adds the namespace to the name of an object whose file has none.
func withNamespace(object string) string {
	kind, name, _ := strings.Cut(object, " ")
	switch {
	case strings.Contains(name, "/"):
		return object
	case slices.Contains([]string{"Namespace", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "CustomResourceDefinition"}, kind):
		return kind + " /" + name
	default:
		return kind + " default/" + name
	}
}

func readInput(t *testing.T, dir, name string) lint.File {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return lint.File{Name: name, Text: body}
}

// readDifferences reads the reasons of deliberate differences. A line is: FILE DIFFERENCE | REASON.
func readDifferences(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reasons := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		difference, reason, ok := strings.Cut(line, " | ")
		if !ok {
			t.Fatalf("differences.txt: %q has no reason", line)
		}
		reasons[difference] = reason
	}
	return reasons
}

func prefix(p string, list []string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, p+x)
	}
	return out
}

func shortNames(list []string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, filepath.Base(x))
	}
	return out
}
