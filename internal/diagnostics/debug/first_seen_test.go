package debug

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestFirstSeen dates Problems: the time stays when a Problem is found again, also at another line of
// its file, and is new after it was resolved.
func TestFirstSeen(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	now := start
	var found, conflicts []config.Problem
	o := pagesOf(t, fixture.New(t, nil, nil), twoProxies(t)).Options
	o.Analysis = func() []config.Problem { return found }
	o.Conflicts = func(*snapshot.Snapshot, []view.Key) []config.Problem { return conflicts }
	o.Now = func() time.Time { return now }
	p := New(o)
	problem := func(field, origin string) config.Problem {
		return config.Problem{
			Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "x"}, Field: field, Origin: origin, Reason: "is bad", Severity: config.Error,
		}
	}
	since := func() map[string]time.Duration {
		body, err := p.Page("problemz", Caller{})
		if err != nil {
			t.Fatal(err)
		}
		var list []DatedProblem
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		ages := map[string]time.Duration{}
		for _, x := range list {
			if x.Field != "" { // refusals of the two proxies have no field
				ages[x.Field] = x.Since.Sub(start)
			}
		}
		return ages
	}
	check := func(want map[string]time.Duration) {
		t.Helper()
		if d := cmp.Diff(want, since()); d != "" {
			t.Error(d)
		}
	}

	found = []config.Problem{problem("a", "mesh.yaml#1:1")}
	p.RecordConfigurationProblems() // as after an analysis: no reader is needed
	now = start.Add(time.Minute)
	conflicts = []config.Problem{problem("conflict", "")}
	check(map[string]time.Duration{"a": 0, "conflict": time.Minute})

	now = start.Add(time.Hour)
	found = []config.Problem{problem("a", "mesh.yaml#9:1"), problem("b", "")}
	p.RecordConfigurationProblems()
	now = start.Add(2 * time.Hour)
	check(map[string]time.Duration{"a": 0, "b": time.Hour, "conflict": time.Minute})

	found, conflicts = []config.Problem{problem("b", "")}, nil
	check(map[string]time.Duration{"b": time.Hour})
	now = start.Add(3 * time.Hour)
	found, conflicts = []config.Problem{problem("a", ""), problem("b", "")}, []config.Problem{problem("conflict", "")}
	check(map[string]time.Duration{"a": 3 * time.Hour, "b": time.Hour, "conflict": 3 * time.Hour})
}
