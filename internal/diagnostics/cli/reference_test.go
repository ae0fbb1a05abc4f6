package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/PILOTCTL.md") //nolint:gochecknoglobals // a flag

// TestReference compares docs/PILOTCTL.md with the command tree.
func TestReference(t *testing.T) {
	const path = "../../../docs/PILOTCTL.md"
	want := Reference(New(), map[string]string{"pilotctl diff": diffSession(t)})
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/PILOTCTL.md differs (-want +got; go test -update rewrites it):\n%s", diff)
	}
}

// diffSession returns a comparison with Bookinfo, of which v1 of reviews gets all requests, with its
// output.
func diffSession(t *testing.T) string {
	t.Helper()
	const samples = "../../../samples/bookinfo/"
	dir := t.TempDir()
	for _, path := range []string{
		"platform/reviews.yaml", "platform/productpage.yaml", "networking/destination-rule-all.yaml", "networking/virtual-service-all-v1.yaml",
	} {
		text, err := os.ReadFile(samples + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output, _, code := runDiff(t, "", "--from", dir, "-f", samples+"networking/virtual-service-reviews-90-10.yaml", "--proxy", "productpage-v1")
	if code != exitDifference {
		t.Errorf("diff of the samples: exit code %d", code)
	}
	return "$ pilotctl diff --from mesh -f virtual-service-reviews-90-10.yaml --proxy productpage-v1\n" + output
}

// TestAnalysisReference compares docs/ANALYSIS.md with the codes and the checks.
func TestAnalysisReference(t *testing.T) {
	const path = "../../../docs/ANALYSIS.md"
	cases, err := os.ReadFile("../../../test/conformance/analyzers/testdata/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	want := AnalysisReference(string(cases))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/ANALYSIS.md differs (-want +got; go test -update rewrites it):\n%s", diff)
	}
}

// TestEquivalentsExist finds every command of the table for users of istioctl in the command tree.
func TestEquivalentsExist(t *testing.T) {
	for _, e := range equivalents() {
		if e.pilotctl == "" {
			continue
		}
		c, rest, err := New().Find(strings.Fields(e.pilotctl))
		if err != nil || len(rest) > 0 || c.CommandPath() != "pilotctl "+e.pilotctl {
			t.Errorf("istioctl %s: there is no pilotctl %s (%v)", e.istioctl, e.pilotctl, err)
		}
	}
}
