package unread

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the section of docs/ENVIRONMENT.md")

// TestSection compares the last section of docs/ENVIRONMENT.md with the table.
func TestSection(t *testing.T) {
	const path = "../../../docs/ENVIRONMENT.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), Title)
	if !found {
		t.Fatalf("%s has no section %q", path, Title)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+Section()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(before+Section(), string(text)); diff != "" {
		t.Errorf("%s differs from the table: go test ./internal/model/unread -update (-table +document)\n%s", path, diff)
	}
}

// TestTable checks that no variable is in two groups, and that each has a behaviour.
func TestTable(t *testing.T) {
	var names []string
	for _, g := range Groups() {
		if g.Here == "" || len(g.Variables) == 0 {
			t.Errorf("%v: no behaviour or no variables", g)
		}
		for _, v := range g.Variables {
			if slices.Contains(names, v.Name) {
				t.Errorf("%s is in the table twice", v.Name)
			}
			names = append(names, v.Name)
		}
	}
	if v, here, ok := Find("ENABLE_LEADER_ELECTION"); !ok || v.Default != "true" || here != "always" {
		t.Errorf("ENABLE_LEADER_ELECTION: %v, %q, %t", v, here, ok)
	}
	if v, here, ok := Find("POD_NAMESPACE"); ok || here != "" {
		t.Errorf("a variable that is read: %v, %q, %t", v, here, ok)
	}
}

// TestWarnings checks that a value other than istiod's default is reported, in any spelling.
func TestWarnings(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"ENABLE_LEADER_ELECTION", "", ""},
		{"ENABLE_LEADER_ELECTION", "true", ""},
		{"ENABLE_LEADER_ELECTION", "1", ""},
		{"ENABLE_LEADER_ELECTION", "false", `environment variable ENABLE_LEADER_ELECTION="false" has no effect: always`},
		{"PILOT_ANALYSIS_INTERVAL", "10000ms", ""},
		{"PILOT_ANALYSIS_INTERVAL", "10m", `environment variable PILOT_ANALYSIS_INTERVAL="10m" has no effect: the checks of`},
		{"ISTIO_GPRC_MAXSTREAMS", "100000.0", ""},
		{"ISTIO_GPRC_MAXSTREAMS", "5", `environment variable ISTIO_GPRC_MAXSTREAMS="5" has no effect: 100 streams`},
		{"PILOT_MULTICLUSTER_KUBECONFIG_PATH", "/etc/clusters", `environment variable PILOT_MULTICLUSTER_KUBECONFIG_PATH="/etc/clusters"`},
		{"POD_NAMESPACE", "other", ""},
	} {
		got := Warnings(func(name string) (string, bool) { return test.value, name == test.name })
		if len(got) > 1 || strings.Join(got, "") == "" != (test.want == "") || !strings.HasPrefix(strings.Join(got, ""), test.want) {
			t.Errorf("%s=%s: %q, want %q", test.name, test.value, got, test.want)
		}
	}
}
