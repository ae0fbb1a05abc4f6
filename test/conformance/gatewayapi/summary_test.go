package gatewayapi

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const output = `=== RUN   TestConformance
=== RUN   TestConformance/GatewayModifyListeners
--- FAIL: TestConformance (60.0s)
    --- PASS: TestConformance/GatewayModifyListeners (12.50s)
        --- PASS: TestConformance/GatewayModifyListeners/should_be_able (1.00s)
    --- FAIL: TestConformance/HTTPRouteWeight (3.00s)
        --- FAIL: TestConformance/HTTPRouteWeight/Requests (1.00s)
    --- SKIP: TestConformance/UDPRoute (0.00s)
FAIL
`

const report = `
gatewayAPIVersion: v1.6.0
profiles:
- name: GATEWAY-HTTP
  core: {result: failure, statistics: {Passed: 36, Failed: 1, Skipped: 0}, failedTests: [HTTPRouteWeight]}
  extended: {result: success, statistics: {Passed: 50, Failed: 0, Skipped: 0}, unsupportedFeatures: [One, Two]}
- name: MESH-HTTP
  core: {result: success, statistics: {Passed: 7, Failed: 0, Skipped: 0}}
succeededProvisionalTests: [A]
`

func TestResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.yaml")
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newResult(output, path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() != 1 || r.Complete() {
		t.Errorf("%d failed, complete %v", r.Failed(), r.Complete())
	}
	var out bytes.Buffer
	r.Print(&out)
	want := `GATEWAY-HTTP    core 36 passed, 1 failed, 0 skipped  extended 50 passed, 0 failed, 0 skipped, 2 features unsupported
MESH-HTTP       core 7 passed, 0 failed, 0 skipped
FAIL HTTPRouteWeight (3.0s)
SKIP UDPRoute (0.0s)
slowest: GatewayModifyListeners 12s, HTTPRouteWeight 3s, UDPRoute 0s
1 passed, 1 failed, 1 skipped in 60 s; 1 of the passed tests are provisional
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNoTestRan: output without a test is an error and not a success.
func TestNoTestRan(t *testing.T) {
	if _, err := newResult("ok  \tconformance\n", filepath.Join(t.TempDir(), "none"), time.Second); err == nil {
		t.Error("no error, want one")
	}
}

// TestCompleteness: each of a failed test, a skipped one and an unsupported feature makes a result incomplete.
func TestCompleteness(t *testing.T) {
	complete := func() *Result {
		return &Result{Tests: []Test{{Outcome: Passed}}, Profiles: []Profile{{Extended: &Part{}}}}
	}
	if !complete().Complete() {
		t.Error("a complete result is incomplete")
	}
	for name, change := range map[string]func(*Result){
		"failed":             func(r *Result) { r.Tests[0].Outcome = Failed },
		"skipped":            func(r *Result) { r.Tests[0].Outcome = Skipped },
		"failed in report":   func(r *Result) { r.Profiles[0].Core.Statistics.Failed = 1 },
		"skipped in report":  func(r *Result) { r.Profiles[0].Extended.Statistics.Skipped = 1 },
		"unsupported":        func(r *Result) { r.Profiles[0].Extended.UnsupportedFeatures = []string{"X"} },
		"unsupported (core)": func(r *Result) { r.Profiles[0].Core.UnsupportedFeatures = []string{"X"} },
	} {
		r := complete()
		if change(r); r.Complete() {
			t.Errorf("%s: the result is complete", name)
		}
	}
}

// TestUnreportedFailures: a report names the failed tests that the suite did not wait for.
func TestUnreportedFailures(t *testing.T) {
	r := &Result{
		Tests:    []Test{{Name: "B", Outcome: Failed}, {Name: "A", Outcome: Failed}, {Name: "C", Outcome: Failed}, {Name: "D", Outcome: Passed}},
		Profiles: []Profile{{Core: Part{FailedTests: []string{"C"}}}},
	}
	const want = "# These tests failed after the suite had written the report, which counts them as passed: A, B.\nkind: x\n"
	if got := string(r.annotate([]byte("kind: x\n"))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Tests = r.Tests[2:]
	if got := string(r.annotate([]byte("kind: x\n"))); got != "kind: x\n" {
		t.Errorf("%q without unreported failures", got)
	}
}
