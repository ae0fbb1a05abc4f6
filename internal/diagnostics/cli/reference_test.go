package cli

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/PILOTCTL.md") //nolint:gochecknoglobals // a flag

// TestReference compares docs/PILOTCTL.md with the command tree.
func TestReference(t *testing.T) {
	const path = "../../../docs/PILOTCTL.md"
	want := Reference(New(), map[string]string{
		"pilotctl diff":     diffSession(t),
		"pilotctl explain":  flagSession(t),
		"pilotctl test":     testSession(t),
		"pilotctl analyze":  lintSession(t, "analyze", "web.yaml"),
		"pilotctl validate": lintSession(t, "validate", "-f", "web.yaml"),

		"pilotctl check-migration": migrationSession(t),
		"pilotctl compare":         compareSession(t),
	})
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

// flagSession returns the description of a response flag.
func flagSession(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetArgs([]string{"explain", "503,UF"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	return "$ pilotctl explain 503,UF\n" + out.String()
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

// testSession returns a run of the cases of the sample with a case that fails.
func testSession(t *testing.T) string {
	t.Helper()
	args := append([]string{"test", "calls/cases.yaml"}, bookinfoMesh("")...)
	out, err := runCommand(t, append([]string{"test", bookinfo + "calls/cases.yaml"}, bookinfoMesh(bookinfo)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return "$ cd samples/bookinfo\n$ pilotctl " + strings.Join(args, " ") + "\n" + out
}

// lintSession returns a run of analyze or validate on a file with two mistakes, with its output.
func lintSession(t *testing.T, args ...string) string {
	t.Helper()
	const web = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec:
  hosts: [web]
  http:
  - timeout: soon
    route: [{destination: {host: wbe}}]
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetErr(&out)
	given := slices.Clone(args)
	given[len(given)-1] = filepath.Join(dir, "web.yaml")
	c.SetArgs(given)
	err := c.Execute()
	if ExitCode(err) != exitProblems {
		t.Fatalf("pilotctl %s: %v", strings.Join(args, " "), err)
	}
	text := strings.ReplaceAll(out.String()+"pilotctl: "+err.Error()+"\n", dir+"/", "")
	return "$ cat web.yaml\n" + web + "$ pilotctl " + strings.Join(args, " ") + "\n" + text
}

// migrationSession returns a run of check-migration on a folder of an installation of istiod.
func migrationSession(t *testing.T) string {
	t.Helper()
	const path = "testdata/migration/istiod.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runCommand(t, "check-migration", "-f", path)
	if ExitCode(err) != exitProblems {
		t.Fatalf("pilotctl check-migration: %v", err)
	}
	out = strings.ReplaceAll(out+"pilotctl: "+err.Error()+"\n", path, "istiod.yaml")
	return "$ cat istiod.yaml\n" + string(text) + "$ pilotctl check-migration -f istiod.yaml\n" + out
}

// compareSession returns a comparison of two config dumps.
func compareSession(t *testing.T) string {
	t.Helper()
	const dir = "testdata/compare/"
	out, err := runCommand(t, "compare", dir+"istiod.json", dir+"meshpilot.json")
	if ExitCode(err) != exitDifference {
		t.Fatalf("pilotctl compare: %v", err)
	}
	out = strings.ReplaceAll(out, dir, "")
	return "$ pilotctl compare istiod.json meshpilot.json\n" + out + "pilotctl: " + err.Error() + "\n"
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
