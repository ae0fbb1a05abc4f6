package readapi

import (
	"context"
	"net/http"
	"net/url"
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
	debug.Problem
	Title   string `json:"title,omitempty" doc:"Name of the code."`
	Meaning string `json:"meaning,omitempty" doc:"What the code means, and its consequence."`
	Advice  string `json:"advice,omitempty" doc:"What to do."`
}

// Problems are the mistakes in objects of the caller's namespaces.
type Problems struct {
	Problems   []ExplainedProblem `json:"problems" doc:"Errors first, then sorted by object and field."`
	Unanswered []Unanswered       `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// registerProblems adds the operation that lists the Problems.
func (a *API) registerProblems() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-problems", Method: http.MethodGet, Path: Prefix + "/problems",
		Summary: "Mistakes in objects, with their consequence and what to do, at all replicas",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.problems)
}

// problems serves the Problems that the caller may read: those of this replica and others that only
// other replicas have, errors first. The latter depend on the proxies that are connected there.
func (a *API) problems(ctx context.Context, r *Aggregation) (*struct{ Body Problems }, error) {
	x := Problems{Problems: []ExplainedProblem{}}
	seen := map[debug.Problem]bool{}
	for _, p := range a.problemsOf(callerOf(ctx)) {
		seen[p] = true
		x.Problems = append(x.Problems, explainProblem(p))
	}
	var answers []Problems
	answers, x.Unanswered = collectFromPeers[Problems](ctx, a, *r, "/problems", url.Values{})
	for _, other := range answers {
		for _, p := range other.Problems {
			if !seen[p.Problem] {
				seen[p.Problem] = true
				x.Problems = append(x.Problems, p)
			}
		}
	}
	slices.SortStableFunc(x.Problems, func(p, q ExplainedProblem) int { return rankSeverity(p) - rankSeverity(q) })
	return &struct{ Body Problems }{x}, nil
}

// rankSeverity orders errors before warnings.
func rankSeverity(p ExplainedProblem) int {
	if p.Severity == severityError {
		return 0
	}
	return 1
}

// explainProblem returns p with title, meaning and advice of its code, which stay empty for an
// unknown code.
func explainProblem(p debug.Problem) ExplainedProblem {
	x := ExplainedProblem{Problem: p}
	if e, ok := code.Find(code.Code(p.Code)); ok {
		x.Title, x.Meaning, x.Advice = e.Name, e.Meaning, e.Advice
	}
	return x
}

// problemsOf returns the Problems of objects that the caller may read. A caller with a namespace
// gets no Problems without one.
func (a *API) problemsOf(caller debug.Caller) []debug.Problem {
	list := []debug.Problem{}
	for _, p := range a.known.list(a.Clock, a.allProblems) {
		if caller.CanRead(p.Namespace) {
			list = append(list, p)
		}
	}
	return list
}

// allProblems returns the result of Options.Problems, or the Problems of the snapshot if that is
// nil.
func (a *API) allProblems() []config.Problem {
	if a.Problems == nil {
		return a.Snapshot().Problems()
	}
	return a.Problems()
}

// problemCache keeps the list of Problems for all clients: it is expensive, because it builds the
// View of each class of proxies.
type problemCache struct {
	mu    sync.Mutex
	until time.Time
	now   []debug.Problem
}

// list returns the result of all, which it calls again at most every maxInterval. After a slow call
// it reuses the result for lookShare times the duration of the call. The list is shared and must
// not be modified.
func (c *problemCache) list(now clock.Clock, all func() []config.Problem) []debug.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := now.Now()
	if start.Before(c.until) {
		return c.now
	}
	c.now = nil
	for _, p := range all() {
		c.now = append(c.now, debug.NewProblem(p))
	}
	end := now.Now()
	c.until = end.Add(max(maxInterval, lookShare*end.Sub(start)))
	return c.now
}
