package gatewayapi

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Outcome of a test.
type Outcome string

// The outcomes, as the test program prints them.
const (
	Passed  Outcome = "PASS"
	Failed  Outcome = "FAIL"
	Skipped Outcome = "SKIP"
)

// Test is the outcome of one test of the suite.
type Test struct {
	Name    string
	Outcome Outcome
	Took    time.Duration
}

// Statistics are the numbers of tests of a part of a profile.
type Statistics struct {
	Passed, Failed, Skipped int
}

// Part is the core or the extended part of a profile.
type Part struct {
	Result              string     `json:"result"`
	Statistics          Statistics `json:"statistics"`
	FailedTests         []string   `json:"failedTests"`
	SkippedTests        []string   `json:"skippedTests"`
	UnsupportedFeatures []string   `json:"unsupportedFeatures"`
}

// Profile is the result of one profile in the report.
type Profile struct {
	Name     string `json:"name"`
	Core     Part   `json:"core"`
	Extended *Part  `json:"extended"`
}

// Result is the outcome of a run.
type Result struct {
	Tests []Test
	// Profiles are those of the report, and Provisional its provisional tests that passed. Both are empty if
	// only some tests ran.
	Profiles    []Profile
	Provisional []string
	Took        time.Duration
}

// testLine matches the outcome of a test of the suite, not that of its subtests.
var testLine = regexp.MustCompile(`(?m)^    --- (PASS|FAIL|SKIP): TestConformance/(\S+) \(([0-9.]+)s\)$`)

// newResult reads the output of the suite's program, and the report if there is one. It returns an error if no
// test ran.
func newResult(output, report string, took time.Duration) (*Result, error) {
	r := &Result{Took: took}
	for _, m := range testLine.FindAllStringSubmatch(output, -1) {
		seconds, err := time.ParseDuration(m[3] + "s")
		if err != nil {
			return nil, err
		}
		r.Tests = append(r.Tests, Test{Name: m[2], Outcome: Outcome(m[1]), Took: seconds})
	}
	if len(r.Tests) == 0 {
		return nil, fmt.Errorf("no test of the suite ran:\n%s", lastLines(output))
	}
	text, err := os.ReadFile(report)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	var parsed struct {
		Profiles                  []Profile `json:"profiles"`
		SucceededProvisionalTests []string  `json:"succeededProvisionalTests"`
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	r.Profiles, r.Provisional = parsed.Profiles, parsed.SucceededProvisionalTests
	return r, nil
}

// count returns the number of tests with an outcome.
func (r *Result) count(o Outcome) (n int) {
	for _, t := range r.Tests {
		if t.Outcome == o {
			n++
		}
	}
	return n
}

// Unreported returns the failed tests that the report counts as passed. The suite of v1.6.0 writes the report when its
// parallel tests have not run yet, and their outcome is only in its output.
func (r *Result) Unreported() []string {
	reported := map[string]bool{}
	for _, p := range r.Profiles {
		for _, part := range p.parts() {
			for _, name := range part.FailedTests {
				reported[name] = true
			}
		}
	}
	var list []string
	for _, t := range r.Tests {
		if t.Outcome == Failed && !reported[t.Name] {
			list = append(list, t.Name)
		}
	}
	slices.Sort(list)
	return list
}

// annotate returns a report with a comment that names the failed tests that it counts as passed.
func (r *Result) annotate(report []byte) []byte {
	list := r.Unreported()
	if len(list) == 0 {
		return report
	}
	head := "# These tests failed after the suite had written the report, which counts them as passed: " + strings.Join(list, ", ") + ".\n"
	return append([]byte(head), report...)
}

// Failed returns the number of failed tests.
func (r *Result) Failed() int { return r.count(Failed) }

// Complete reports whether no test failed, none was skipped, and no feature is unsupported.
func (r *Result) Complete() bool {
	complete := r.count(Failed) == 0 && r.count(Skipped) == 0
	for _, p := range r.Profiles {
		for _, part := range p.parts() {
			complete = complete &&
				part.Statistics.Failed == 0 &&
				part.Statistics.Skipped == 0 &&
				len(part.UnsupportedFeatures) == 0
		}
	}
	return complete
}

func (p Profile) parts() []Part {
	if p.Extended == nil {
		return []Part{p.Core}
	}
	return []Part{p.Core, *p.Extended}
}

// Print writes a table of the profiles, and the tests that did not pass.
func (r *Result) Print(w io.Writer) {
	for _, p := range r.Profiles {
		fmt.Fprintf(w, "%-14s", p.Name)
		for i, part := range p.parts() {
			s := part.Statistics
			level := []string{"core", "extended"}[i]
			fmt.Fprintf(w, "  %s %d passed, %d failed, %d skipped", level, s.Passed, s.Failed, s.Skipped)
			if n := len(part.UnsupportedFeatures); n > 0 {
				fmt.Fprintf(w, ", %d features unsupported", n)
			}
		}
		fmt.Fprintln(w)
	}
	for _, o := range []Outcome{Failed, Skipped} {
		for _, t := range r.Tests {
			if t.Outcome == o {
				fmt.Fprintf(w, "%s %s (%.1fs)\n", o, t.Name, t.Took.Seconds())
			}
		}
	}
	var slow []string
	slowestFirst := slices.SortedFunc(slices.Values(r.Tests), func(a, b Test) int {
		return cmp.Compare(b.Took, a.Took)
	})
	for _, t := range slowestFirst[:min(5, len(r.Tests))] {
		slow = append(slow, fmt.Sprintf("%s %.0fs", t.Name, t.Took.Seconds()))
	}
	fmt.Fprintf(w, "slowest: %s\n", strings.Join(slow, ", "))
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped in %.0f s", r.count(Passed), r.count(Failed), r.count(Skipped), r.Took.Seconds())
	if n := len(r.Provisional); n > 0 {
		fmt.Fprintf(w, "; %d of the passed tests are provisional", n)
	}
	fmt.Fprintln(w)
}
