package scorecard

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// Results of a check.
const (
	Passed = "passed"
	// AtThisSize follows Passed unless a soak has shown all that the check requires.
	AtThisSize = " at this size"
	Failed     = "failed"
	Skipped    = "skipped"
	NotRun     = "not run"
)

// fixedCases is the size of tests that have none: they always run the same cases.
const fixedCases = "fixed cases"

// A Row is the result of a check, as the document shows it. The zero Row is of a check that was
// never run.
type Row struct {
	// Result is Passed, Failed, Skipped or NotRun, followed by a reason for all but the first.
	Result string
	// Size is the size at which the tests ran, Measured their measurements.
	Size, Measured string
	// Run is the date, the selected size and the commit.
	Run string
	// Peer is the result of the same tests with the other control plane; "" if none was measured.
	Peer string
}

// Judge returns result, size and figures of a check. It fails if any test failed, did not end or
// did not declare the check, and is skipped if any test was skipped.
func Judge(c Check, tests []Test, outcomes Outcomes) Row {
	var failed, skipped, sizes, measured []string
	for _, t := range tests {
		o := outcomes[Test{Package: t.Package, Name: t.Name}]
		switch {
		case o == nil:
			failed = append(failed, t.Name+" did not run")
			continue
		case o.Ended == "":
			failed = append(failed, t.Name+" did not end")
		case o.Ended == "skip":
			skipped = append(skipped, fmt.Sprintf("%s (%s)", t.Name, escapeCell(o.SkipReason)))
		case o.Ended == "fail":
			failed = append(failed, t.Name)
		case o.Declared[c.Number] == nil:
			failed = append(failed, t.Name+" did not declare the check")
		}
		prefix := ""
		if len(tests) > 1 {
			prefix = strings.TrimPrefix(t.Name, "Test") + ": "
		}
		if o.SkippedSubtests > 0 {
			measured = append(measured, fmt.Sprintf("%s%d subtests skipped", prefix, o.SkippedSubtests))
		}
		if text := joinFigures(o.Declared[c.Number]); text != "" {
			sizes = append(sizes, prefix+text)
		}
		if text := joinFigures(o.Measured[c.Number]); text != "" {
			measured = append(measured, prefix+text)
		}
	}
	if len(sizes) == 0 && len(tests) > 0 {
		sizes = []string{fixedCases}
	}
	row := Row{Result: Passed, Size: strings.Join(sizes, "; "), Measured: strings.Join(measured, "; ")}
	switch {
	case len(tests) == 0:
		row.Result = NotRun
	case len(failed) > 0:
		row.Result = Failed + ": " + strings.Join(failed, ", ")
	case len(skipped) > 0:
		row.Result = Skipped + ": " + strings.Join(skipped, ", ")
	}
	return row
}

// joinFigures returns figures as text: "rounds 5, requests 12,000".
func joinFigures(figures []scorecard.Figure) string {
	list := make([]string, len(figures))
	for i, f := range figures {
		list[i] = f.Name + " " + f.Value
	}
	return strings.Join(list, ", ")
}
