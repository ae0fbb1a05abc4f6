package readapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

const severityError = string(config.Error)

// ExplainedProblem is a Problem with the general texts of its code.
type ExplainedProblem struct {
	debug.DatedProblem
	Title   string `json:"title,omitempty" doc:"Name of the code."`
	Meaning string `json:"meaning,omitempty" doc:"What the code means, and its consequence."`
	Advice  string `json:"advice,omitempty" doc:"What to do."`
}

// Problems are the mistakes in objects of the caller's namespaces.
type Problems struct {
	Problems   []ExplainedProblem `json:"problems" doc:"Errors first, each severity newest first, then sorted by object and field."`
	Unanswered []Unanswered       `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// ProblemsRequest selects the replicas whose Problems are listed.
type ProblemsRequest struct {
	Aggregation
	Freshness
}

// registerProblems adds the operation that lists the Problems.
func (a *API) registerProblems() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-problems", Method: http.MethodGet, Path: Prefix + "/problems",
		Summary: "Mistakes in objects, with their consequence and what to do, at all replicas",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.problems)
}

// problems serves the Problems that the caller may read, of this replica and of the selected
// others, in the order of compareProblems. Some depend on the proxies that are connected to a
// replica. A Problem of several replicas is listed once, with the earliest time. Replicas that do
// not answer are in Unanswered.
func (a *API) problems(ctx context.Context, r *ProblemsRequest) (*struct{ Body Problems }, error) {
	x := Problems{Problems: []ExplainedProblem{}}
	at := map[debug.Problem]int{}
	for _, p := range a.problemsOf(callerOf(ctx), r.Freshness) {
		at[p.Problem] = len(x.Problems)
		x.Problems = append(x.Problems, explainProblem(p))
	}
	var answers []Problems
	answers, x.Unanswered = collectFromPeers[Problems](ctx, a, r.Aggregation, "/problems", r.Freshness.query())
	for _, other := range answers {
		for _, p := range other.Problems {
			i, known := at[p.Problem]
			switch {
			case !known:
				at[p.Problem] = len(x.Problems)
				x.Problems = append(x.Problems, p)
			case sinceOf(p).Before(sinceOf(x.Problems[i])) && p.Since != nil:
				x.Problems[i].Since = p.Since
			}
		}
	}
	slices.SortStableFunc(x.Problems, compareProblems)
	return &struct{ Body Problems }{x}, nil
}

// compareProblems orders errors before warnings, and newer Problems before older ones. Times within
// the same second are equal.
func compareProblems(p, q ExplainedProblem) int {
	return cmp.Or(
		rankSeverity(p)-rankSeverity(q),
		sinceOf(q).Truncate(time.Second).Compare(sinceOf(p).Truncate(time.Second)),
	)
}

// sinceOf returns the time at which p appeared, or zero if it is unknown.
func sinceOf(p ExplainedProblem) time.Time {
	if p.Since == nil {
		return time.Time{}
	}
	return *p.Since
}

// rankSeverity returns 0 for errors and 1 for all others, so that errors sort first.
func rankSeverity(p ExplainedProblem) int {
	if p.Severity == severityError {
		return 0
	}
	return 1
}

// explainProblem returns p with title, meaning and advice of its code, which stay empty for an
// unknown code.
func explainProblem(p debug.DatedProblem) ExplainedProblem {
	x := ExplainedProblem{DatedProblem: p}
	if e, ok := code.Find(code.Code(p.Code)); ok {
		x.Title, x.Meaning, x.Advice = e.Name, e.Meaning, e.Advice
	}
	return x
}

// problemsOf returns the Problems of objects that the caller may read. A caller with a namespace
// gets no Problems without one. Unless f is set and the caller may read everything, the list may be one
// of the last seconds.
func (a *API) problemsOf(caller debug.Caller, f Freshness) []debug.DatedProblem {
	all := a.allProblems
	if !f.Fresh || !caller.CanRead("") {
		all = func() []debug.DatedProblem { return a.known.list(a.Clock, a.allProblems) }
	}
	list := []debug.DatedProblem{}
	for _, p := range all() {
		if caller.CanRead(p.Namespace) {
			list = append(list, p)
		}
	}
	return list
}

// allProblems returns the result of Options.Problems, or the Problems of the snapshot if that is
// nil, with the times at which they appeared if Options.Pages knows them.
func (a *API) allProblems() []debug.DatedProblem {
	find := a.Problems
	date := func(p config.Problem) debug.DatedProblem {
		return debug.DatedProblem{Problem: debug.NewProblem(p)}
	}
	if find == nil {
		find = a.Snapshot().Problems
	}
	if a.Pages != nil {
		date = a.Pages.Dated
	}
	found := find()
	list := make([]debug.DatedProblem, 0, len(found))
	for _, p := range found {
		list = append(list, date(p))
	}
	return list
}

// problemCache keeps the list of Problems for all clients: it is expensive, because it builds the
// View of each class of proxies.
type problemCache struct {
	mu    sync.Mutex
	until time.Time
	now   []debug.DatedProblem
}

// list returns the result of all, which it calls again at most every maxInterval, and reuses for
// sharedShare times the CPU time of the call. The list is shared and must not be modified.
func (c *problemCache) list(now clock.Clock, all func() []debug.DatedProblem) []debug.DatedProblem {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Now().Before(c.until) {
		return c.now
	}
	cost := cpuTime(func() { c.now = all() })
	c.until = now.Now().Add(max(maxInterval, sharedShare*cost))
	return c.now
}
