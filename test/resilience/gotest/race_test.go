package gotest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const (
	// raceReserve is the time that must be left of this test's timeout when a batch of packages begins.
	raceReserve = 12 * time.Minute
	// raceBatch is the number of packages that one go command tests, so that it can build one of them
	// while it runs another.
	raceBatch = 8
)

// TestRaceDetector runs the tests of every package with the race detector, at most two packages at a
// time because it takes some five times the memory. Packages that passed in an earlier run are not run
// again unless they or something that they import has changed since (raceRecord): all packages
// together take longer than the timeout of the size hour. Until each has passed, the test is
// skipped and the reason has the number of packages that are left. The short size is the packages
// of the xDS server, the longest one includes the tests that take a minute.
func TestRaceDetector(t *testing.T) {
	scorecard.Heavy(t)
	pattern := scorecard.BySize("./internal/xds/...", "./...", "./...")
	allTests := scorecard.BySize(false, false, true)
	root := module(t)
	packages := testedPackages(t, root, pattern)
	check := scorecard.Check(t, 31, scorecard.Size("packages", len(packages)), scorecard.Size("tests that take a minute", allTests))
	record := openRaceRecord(t, root, allTests)
	races, failed := 0, 0
	for batch := range slices.Chunk(record.due(packages), raceBatch) {
		if deadline, limited := t.Deadline(); limited && time.Until(deadline) < raceReserve {
			t.Log("no time is left for more packages")
			break
		}
		begin := time.Now()
		args := []string{"test", "-race", "-p", "2", "-count", "1", "-timeout", "30m"}
		for _, p := range batch {
			args = append(args, p.path)
		}
		out, _ := run(t, root, allTests, args...)
		races += strings.Count(out, "WARNING: DATA RACE")
		passed := passedPackages(out)
		for _, p := range batch {
			if slices.Contains(passed, p.path) {
				record.add(p)
			}
		}
		record.write(t)
		t.Logf("%v: %d of %d packages passed after %v", args[8:], len(passed), len(batch), time.Since(begin).Round(time.Second))
		if len(passed) < len(batch) {
			failed += len(batch) - len(passed)
			t.Errorf("tests failed, or data races were found:\n%s", failures(out))
		}
	}
	passed, commits, outdated := record.passed(packages)
	check.Measured("packages that passed", passed)
	check.Measured("at commits", commits)
	check.Measured("passed before they or their imports changed", outdated)
	check.Measured("data races", races)
	if left := len(packages) - passed - failed; left > 0 && failed == 0 {
		t.Skipf("%d of %d packages are left: run the check again", left, len(packages))
	}
}

// passedPackages returns the packages that the go command reports as "ok". A data race fails its test.
func passedPackages(output string) []string {
	var list []string
	for line := range strings.Lines(output) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(line, "ok  ") {
			list = append(list, words[1])
		}
	}
	return list
}

// failures returns the lines of failed tests and of data races, with the report of each race.
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
