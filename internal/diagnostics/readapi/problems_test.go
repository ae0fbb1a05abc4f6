package readapi

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestProblemsNewestFirst lists errors before warnings, each newest first, with those of another
// replica. A Problem of both replicas has the earlier time.
func TestProblemsNewestFirst(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	other := newDatedAPI(t, []datedField{
		{"both", config.Warning, start}, {"there", config.Warning, start.Add(2 * time.Minute)},
	})
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	a := newDatedAPI(t, []datedField{
		{"error", config.Error, start}, {"both", config.Warning, start.Add(3 * time.Minute)},
		{"here", config.Warning, start.Add(time.Minute)}, {"new-error", config.Error, start.Add(time.Minute)},
		{"z", config.Warning, start},
	})
	a.Peers.Addresses = []string{host(server)}
	list := readView[Problems](t, a, "", "/problems").Problems
	fields, times := make([]string, 0, len(list)), map[string]time.Time{}
	for _, p := range list {
		fields = append(fields, p.Field)
		times[p.Field] = sinceOf(p)
	}
	if want := []string{"new-error", "error", "there", "here", "both", "z"}; !slices.Equal(fields, want) {
		t.Errorf("the order is %q, want %q", fields, want)
	}
	if !times["both"].Equal(start) || !times["there"].Equal(start.Add(2*time.Minute)) {
		t.Errorf("the times are %v", times)
	}
}

// datedField is a Problem of a field and the time at which it is found.
type datedField struct {
	field    string
	severity config.Severity
	found    time.Time
}

// newDatedAPI returns an API whose analysis has found Problems at their times.
func newDatedAPI(t *testing.T, problems []datedField) *API {
	t.Helper()
	o := newViewAPI(t).Options
	var now time.Time
	var found []config.Problem
	empty := snapshot.NewBuilder(snapshot.Options{}).Current
	o.Pages = debug.New(debug.Options{
		Snapshot: empty, Analysis: func() []config.Problem { return found }, Proxies: connections{},
		Now: func() time.Time { return now }, Access: o.Access,
	})
	slices.SortStableFunc(problems, func(a, b datedField) int { return a.found.Compare(b.found) })
	for _, p := range problems {
		now = p.found
		found = append(found, config.Problem{
			Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "x"}, Field: p.field, Reason: "is bad", Severity: p.severity,
		})
		o.Pages.RecordConfigurationProblems()
	}
	o.Problems = o.Pages.Problems
	return New(o)
}
