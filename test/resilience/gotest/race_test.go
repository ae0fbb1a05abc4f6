package gotest

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestRaceDetector runs the tests of every package with the race detector, one package at a time because it takes some five times the
// memory. The short size is the packages of the xDS server, the longest one includes the tests that take a minute.
func TestRaceDetector(t *testing.T) {
	scorecard.Heavy(t)
	packages := scorecard.BySize("./internal/xds/...", "./...", "./...")
	allTests := scorecard.BySize(false, false, true)
	check := scorecard.Check(t, 31, scorecard.Size("packages", packages), scorecard.Size("tests that take a minute", allTests))
	out, ok := run(t, module(t), allTests, "test", "-race", "-p", "1", "-count", "1", "-timeout", "30m", packages)
	passed, races := strings.Count(out, "\nok  "), strings.Count(out, "WARNING: DATA RACE")
	if strings.HasPrefix(out, "ok  ") {
		passed++
	}
	check.Measured("packages that passed", passed)
	check.Measured("data races", races)
	if !ok {
		t.Errorf("tests failed, or data races were found:\n%s", failures(out))
	}
	if passed == 0 {
		t.Error("no package was tested")
	}
}

// failures returns the lines of failed tests and of data races, with what follows a race.
func failures(output string) string {
	var kept []string
	rest := 0
	for line := range strings.Lines(output) {
		switch {
		case strings.Contains(line, "WARNING: DATA RACE"):
			rest = 40
		case strings.Contains(line, "FAIL"):
			rest = max(rest, 3)
		}
		if rest > 0 {
			kept = append(kept, strings.TrimRight(line, "\n"))
			rest--
		}
	}
	return strings.Join(kept, "\n")
}
