package scorecard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/resilience/scorecard"
)

const events = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"attr","Package":"p","Test":"TestGood","Key":"scorecard.check","Value":"{\"check\":8,\"size\":[{\"name\":\"rounds\",\"value\":\"5\"}]}"}
{"Action":"attr","Package":"p","Test":"TestGood/sub","Key":"scorecard.check","Value":"{\"check\":8,\"size\":[{\"name\":\"rounds\",\"value\":\"5\"}]}"}
{"Action":"attr","Package":"p","Test":"TestGood/sub","Key":"scorecard.measured","Value":"{\"check\":8,\"figure\":{\"name\":\"lost\",\"value\":\"0\"}}"}
{"Action":"pass","Package":"p","Test":"TestGood/sub"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"attr","Package":"p","Test":"TestBad","Key":"scorecard.check","Value":"{\"check\":9}"}
{"Action":"attr","Package":"p","Test":"TestBad","Key":"scorecard.measured","Value":"{\"check\":9,\"figure\":{\"name\":\"lost\",\"value\":\"3\"}}"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"    x_test.go:1: no | root\n"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"--- SKIP: TestSkipped\n"}
{"Action":"skip","Package":"p","Test":"TestSkipped"}
{"Action":"pass","Package":"p","Test":"TestSilent"}
{"Action":"run","Package":"p","Test":"TestHangs"}
not JSON
{"Action":"fail","Package":"p"}
`

func outcomesOf(t *testing.T) scorecard.Outcomes {
	t.Helper()
	outcomes := scorecard.Outcomes{}
	var others []string
	other := func(line string) { others = append(others, line) }
	if err := outcomes.Read("p", strings.NewReader(strings.TrimSpace(events)), other); err != nil {
		t.Fatal(err)
	}
	if len(others) != 1 || others[0] != "not JSON" {
		t.Errorf("other lines %q", others)
	}
	return outcomes
}

func tests(names ...string) (list []scorecard.Test) {
	for _, name := range names {
		list = append(list, scorecard.Test{Package: "p", Name: name})
	}
	return list
}

func TestJudge(t *testing.T) {
	outcomes := outcomesOf(t)
	outcomes[scorecard.Test{Package: "p", Name: "TestHangs"}] = &scorecard.Outcome{}
	for _, tt := range []struct {
		number int
		tests  []string
		want   scorecard.Row
	}{
		{8, []string{"TestGood"}, scorecard.Row{Result: "passed", Size: "rounds 5", Measured: "lost 0"}},
		{9, []string{"TestBad"}, scorecard.Row{Result: "failed: TestBad", Size: "fixed cases", Measured: "lost 3"}},
		{8, []string{"TestGood", "TestSkipped"}, scorecard.Row{
			Result: "skipped: TestSkipped (x_test.go:1: no / root)", Size: "Good: rounds 5", Measured: "Good: lost 0",
		}},
		{8, []string{"TestSilent"}, scorecard.Row{Result: "failed: TestSilent did not declare the check", Size: "fixed cases"}},
		{7, []string{"TestGood"}, scorecard.Row{Result: "failed: TestGood did not declare the check", Size: "fixed cases"}},
		{8, []string{"TestHangs"}, scorecard.Row{Result: "failed: TestHangs did not end", Size: "fixed cases"}},
		{8, []string{"TestNowhere"}, scorecard.Row{Result: "failed: TestNowhere did not run", Size: "fixed cases"}},
		{8, nil, scorecard.Row{Result: "not run"}},
	} {
		got := scorecard.Judge(scorecard.Check{Number: tt.number}, tests(tt.tests...), outcomes)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("check %d by %v (-want +got):\n%s", tt.number, tt.tests, diff)
		}
	}
}

// TestPartialRuns checks that a run replaces the rows of what it ran, keeps the others with their
// dates, and that a row is replaced only if all its tests have run.
func TestPartialRuns(t *testing.T) {
	checks := []scorecard.Check{
		{Number: 8, Title: "eight", Requirement: "r", Tests: tests("TestGood")},
		{Number: 9, Title: "nine", Requirement: "r", Tests: tests("TestBad", "TestLater")},
		{Number: 10, Title: "ten", Requirement: "r"},
	}
	old := scorecard.Row{Result: "passed", Size: "rounds 1", Measured: "lost 0", Run: "2020-01-01, short, abc",
		Peer: "failed; rounds 1; lost 7 (2020-01-01)"}
	document := scorecard.Document{8: old, 9: old}
	stamp := scorecard.Stamp{Time: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), Commit: "def", Size: "hour", Load: "idle"}
	document.Update(checks, outcomesOf(t), stamp)
	want := scorecard.Row{Result: "passed at this size", Size: "rounds 5", Measured: "lost 0",
		Run: "2026-11-22, hour, def, idle", Peer: old.Peer}
	if diff := cmp.Diff(scorecard.Document{8: want, 9: old}, document); diff != "" {
		t.Errorf("after the run (-want +got):\n%s", diff)
	}
	document.UpdatePeer(checks, outcomesOf(t), stamp) // no test of these can run a peer
	if document[8].Peer != old.Peer {
		t.Errorf("peer %q", document[8].Peer)
	}
	checks[0].Tests[0].Peer = true
	document.UpdatePeer(checks, outcomesOf(t), stamp)
	if want := "passed; rounds 5; lost 0 (2026-11-22, hour, idle)"; document[8].Peer != want {
		t.Errorf("peer %q, want %q", document[8].Peer, want)
	}
	text := document.Render(checks)
	again, err := scorecard.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if again.Render(checks) != text {
		t.Errorf("a document that was parsed is rendered differently:\n%s\n%s", text, again.Render(checks))
	}
	if !strings.Contains(text, "| **10** | ten | not run: no test yet |") {
		t.Errorf("the check without tests:\n%s", text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"| **1** | a | b |\n", strings.Repeat("| **1** | a | b | c | d | e | f |\n", 2)} {
		if _, err := scorecard.Parse(text); err == nil {
			t.Errorf("no error for\n%s", text)
		}
	}
}
