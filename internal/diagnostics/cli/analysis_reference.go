package cli

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// AnalysisReference returns the Markdown text of docs/ANALYSIS.md: how to use it in CI, the table
// of checks, and the table of codes. cases is appended: the comparison with Istio's analyzers,
// which test/conformance/analyzers writes.
func AnalysisReference(cases string) string {
	var b strings.Builder
	b.WriteString(`# Analysis

` + "`pilotctl analyze`" + ` finds mistakes in files or in a cluster, and a running control plane finds them in its objects: they are at
` + "`/debug/problemz`, in `pilotctl problems`" + `, in the conditions of the objects and, as far as one object and its references are
concerned, in the warnings of the validation webhook that kubectl prints. All use the same codes. This page is written by ` + "`go test ./internal/diagnostics/cli -update`; `pilotctl analyze --explain CODE`" + ` has the same texts.

With ` + "`--cluster`" + `, the kinds that the control plane reads except EndpointSlices, Deployments, StatefulSets, DaemonSets, webhooks and
CustomResourceDefinitions are listed, and the kinds that Istio has retired ([RETIRED.md](RETIRED.md)) as long as their definitions are
installed. Kinds that are not installed are left out. Kinds that the user may not list are named on standard error, with what the analysis
cannot find without them.

Codes with the prefix IST have the meaning that they have in istioctl, and those with MP are meshpilot's own. The level Error is for
mistakes that make traffic fail, or a rule unused, although the object itself may be valid.

## In continuous integration

    pilotctl analyze -o github my-mesh/                   # annotations beside the lines, on GitHub Actions
    pilotctl analyze -o sarif my-mesh/ > analyze.sarif    # for code scanning
    pilotctl analyze --failure-threshold Warning my-mesh/

The exit code is 79 if a message reaches the failure threshold (by default Error), 0 if none does, and 1 if the analysis failed. Messages are suppressed
by ` + "`--suppress 'IST0102=Namespace default'`" + `, or for an object by its annotation ` + "`galley.istio.io/analyze-suppress: IST0102,IST0118`" + `.

## Analyses

| name | what is checked | control plane |
|---|---|---|
`)
	for _, c := range lint.Checks() {
		live := "–"
		if c.Live {
			live = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Name, c.Description, live)
	}
	b.WriteString("\nThe checks that the control plane does not make need objects that it does not read, or are only worthwhile before objects are applied.\n")
	b.WriteString("\n## Codes\n\n| code | name | level | meaning | what to do |\n|---|---|---|---|---|\n")
	for _, e := range code.All() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", e.Code, e.Name, e.Level, e.Meaning, e.Advice)
	}
	b.WriteString("\n## Istio's analyzer tests\n\nThe analysis runs on the inputs of the tests of Istio's analyzers, and each case compares all messages that " +
		"the analyzer of the case\nreports (`test/conformance/analyzers`). ")
	b.WriteString(cases)
	return b.String()
}
