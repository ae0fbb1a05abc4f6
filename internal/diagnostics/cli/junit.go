package cli

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
)

// junitFormat is the format of --output for reports that CI systems read.
const junitFormat = "junit"

// junitSuite is the root of a report.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// junitCase is one check.
type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

// junitMessage is why a case failed or was skipped.
type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes the results of checks as a JUnit report. name is its test suite, and the
// category the class of a case. Warnings are passed cases with output, and passed checks have their
// detail as output.
func writeJUnit(w io.Writer, name string, results []check.Result) error {
	suite := junitSuite{
		Name: name, Tests: len(results), Failures: check.Count(results, check.Fail),
		Skipped: check.Count(results, check.Skip),
	}
	for _, r := range results {
		c := junitCase{Class: r.Category, Name: r.Check}
		switch r.Status {
		case check.Fail:
			c.Failure = &junitMessage{r.Detail, r.Hint}
		case check.Skip:
			c.Skipped = &junitMessage{Message: r.Detail}
		case check.Warn:
			c.Output = "warning: " + r.Detail + "\n" + r.Hint
		default:
			c.Output = r.Detail
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite.write(w)
}

// writeTestJUnit writes the results of cases as a JUnit report. The class of a case is its file. A
// failed case has its lines as the failure, and each case with a path has the path as output.
func writeTestJUnit(w io.Writer, results []testResult) error {
	suite := junitSuite{Name: "pilotctl test", Tests: len(results), Failures: countFailed(results)}
	for _, r := range results {
		c := junitCase{Class: r.file, Name: r.Case.Name}
		if !r.Passed() {
			c.Failure = &junitMessage{Message: r.lines()[0], Text: strings.Join(r.lines(), "\n")}
		}
		if r.Path != nil {
			c.Output = r.Path.String()
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite.write(w)
}

// write writes the suite as an XML document.
func (s junitSuite) write(w io.Writer) error {
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
