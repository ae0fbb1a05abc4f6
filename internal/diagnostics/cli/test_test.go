package cli

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bookinfo = "../../../samples/bookinfo/"

// bookinfoMesh returns the arguments that name the sample with the rules that its cases need.
func bookinfoMesh(dir string) []string {
	return []string{
		"-f", dir + "kubernetes", "-f", dir + "networking/destination-rule-all.yaml",
		"-f", dir + "networking/virtual-service-reviews-test-v2.yaml", "-f", dir + "calls/policy.yaml",
	}
}

// runCommand runs pilotctl and returns its output and error.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestTestOfSample runs the cases of the sample, which all pass.
func TestTestOfSample(t *testing.T) {
	out, err := runCommand(t, append([]string{"test", bookinfo + "calls/cases.yaml"}, bookinfoMesh(bookinfo)...)...)
	if err != nil || !strings.Contains(out, "√ jason sees v2\n") || !strings.Contains(out, "7 passed, 0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTestFails shows the reports of a failed case and of one that cannot be evaluated.
func TestTestFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cases.yaml")
	const cases = `- {name: good, from: productpage-v1, call: "GET http://ratings:9080/", expect: {to: ratings-v1}}
- {name: bad, from: productpage-v1, call: "GET http://ratings:9080/", expect: {to: reviews-v1}}
- {name: unknown, from: nobody, call: "GET http://ratings:9080/"}
`
	if err := os.WriteFile(path, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"test", path}, bookinfoMesh(bookinfo)...)
	out, err := runCommand(t, args...)
	for _, want := range []string{
		"√ good\n×", "× bad\n    answered by reviews-v1 in 0.0% of calls, want 100.0%\n", "=> outbound|9080||ratings", "1 passed, 2 failed",
		"× unknown\n    there is no proxy \"nobody\"",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if ExitCode(err) != exitCheckFailed || err.Error() != "2 of 3 cases failed" {
		t.Errorf("exit code %d: %v", ExitCode(err), err)
	}
	out, _ = runCommand(t, append(args, "-o", "junit")...)
	var suite junitSuite
	if err := xml.Unmarshal([]byte(out), &suite); err != nil || suite.Tests != 3 || suite.Failures != 2 ||
		!strings.Contains(suite.Cases[1].Failure.Text, "answered by") || suite.Cases[0].Failure != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, _ = runCommand(t, append(args, "-o", "json", "--run", "bad")...)
	if !strings.Contains(out, `"passed": false`) || strings.Contains(out, "unknown") {
		t.Errorf("JSON:\n%s", out)
	}
	for args, want := range map[string]string{
		"test " + path + " -o xml": "want text, json, yaml or junit", "test " + path + " -f nowhere": "no such file",
		"test " + path + " -f " + bookinfo + "calls/policy.yaml --run nothing": "no case in", "test " + path + " --meshConfig x": "with --filename only",
	} {
		if _, err := runCommand(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || ExitCode(err) != exitFailure {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
