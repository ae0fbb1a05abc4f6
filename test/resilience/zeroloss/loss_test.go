package zeroloss

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const (
	// warmUp labels requests before the first event.
	warmUp = "nothing yet"
	// afterAll labels the end of a run of many rounds: a change may affect connections only when
	// they have drained.
	afterAll = "draining"
	// toldOf is the maximum number of lost requests that are printed per lane and event. lostEnough
	// lost requests end a run, because more would only make it longer.
	toldOf     = 3
	lostEnough = 150
	// leastRate is the minimum number of requests a second for a valid result. A `go test ./...`
	// shares the machine.
	leastRate, leastRateOfMany = 200, 1000
	// leastRateOfFaults is the minimum rate of tests in which a fault must not cause the loss of
	// any request.
	leastRateOfFaults = 30
	manyRounds        = 20
)

// TestNoRequestIsLost makes all events while requests run, and expects none to fail.
func TestNoRequestIsLost(t *testing.T) {
	longtest.Test(t)
	list := chosen(t)
	records := declare(t)
	w := startWorld(t)
	s := startStage(t, w)
	logs := newEvidence(w)
	for round := range *rounds {
		for _, e := range list {
			s.play(t, e)
		}
		tally := s.load.Tally()
		if err := logs.collect(t.Context(), tally.Failures); err != nil {
			t.Error(err)
		}
		if n := tally.Sum(nil).Failed; t.Failed() || n >= lostEnough {
			t.Logf("that was round %d: %d requests are lost", round+1, n)
			break
		}
		if (round+1)%manyRounds == 0 {
			all := tally.Sum(nil)
			t.Logf("%d rounds in %s: %d of %d requests are lost", round+1, tally.Elapsed.Round(time.Second), all.Failed, all.Sent)
		}
	}
	s.afterwards(t)
	tally := s.load.Stop()
	if err := logs.collect(t.Context(), tally.Failures); err != nil {
		t.Error(err)
	}
	t.Log("\n" + s.table(tally, append(append([]string{warmUp}, names(list)...), afterAll)))
	for event, record := range records {
		n := tally.Sum(func(c load.Cell) bool { return event.MatchString(c.Event) })
		record.Measured("requests", n.Sent)
		record.Measured("requests lost", n.Failed)
	}
	s.judge(t, tally, logs, atLeast())
}

// declare declares the checks of the scorecard, by the names of their events.
func declare(t *testing.T) map[*regexp.Regexp]scorecard.Record {
	t.Helper()
	records := map[*regexp.Regexp]scorecard.Record{}
	for number, events := range map[int]string{8: "^add and use a subset$", 9: "^remove a subset$", 10: "STRICT|DISABLE"} {
		check := scorecard.Check(t, number, scorecard.Size("rounds", *rounds), scorecard.Size("kinds of requests", len(echo.Kinds())))
		records[regexp.MustCompile(events)] = check
	}
	return records
}

// chosen returns the events to play.
func chosen(t *testing.T) []event {
	t.Helper()
	want, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var list []event
	for _, e := range events() {
		if want.MatchString(e.name) && (!e.ours || *controlPlane == "") && (!e.named || *only != "") {
			list = append(list, e)
		}
	}
	return list
}

// afterwards waits until nothing drains any more.
func (s *stage) afterwards(t *testing.T) {
	t.Helper()
	if *rounds < manyRounds {
		return
	}
	s.load.During(afterAll)
	ctx, cancel := context.WithTimeout(t.Context(), drainTime)
	defer cancel()
	if err := eventually(ctx, func() error { return s.drained(ctx) }); err != nil {
		t.Error(err)
	}
}

// judge reports the errors in the observations.
func (s *stage) judge(t *testing.T, tally load.Tally, logs *evidence, least int) {
	t.Helper()
	all := tally.Sum(nil)
	if tally.Rate() < float64(least) {
		t.Errorf("%.0f requests a second prove little: at least %d", tally.Rate(), least)
	}
	if logs.count == 0 {
		t.Error("the sidecars have logged nothing: whether they retry is not known")
	}
	if n := len(logs.again); n > 0 {
		t.Errorf("sidecars have retried %d requests, which may hide lost ones:\n%s",
			n, strings.Join(logs.again[:min(n, toldOf)], "\n"))
	}
	if all.Failed == 0 {
		return
	}
	t.Errorf("%d of %d requests were lost", all.Failed, all.Sent)
	told := map[load.Cell]int{}
	for _, f := range tally.Failures {
		if told[f.Cell]++; told[f.Cell] <= toldOf {
			t.Logf("%s\n%s", f, strings.Join(logs.lines[f.ID], "\n"))
		}
	}
}

func atLeast() int {
	if *rounds >= manyRounds {
		return leastRateOfMany
	}
	return leastRate
}
