package emit

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ProblemEmitter emits the Problems of scopes if they differ from those emitted last. A scope is an
// object, or another part of the input that a Converter converts as a whole. It must be used by one
// goroutine at a time.
type ProblemEmitter[K comparable] struct {
	source  string
	scope   func(K) string
	emitted *Emitter[K, []config.Problem]
}

// NewProblemEmitter returns a ProblemEmitter that has emitted nothing. Its events have the source.
// scope returns the name of a scope, which no other Converter may use (mesh.Problems.Scope).
func NewProblemEmitter[K comparable](source string, scope func(K) string) *ProblemEmitter[K] {
	return &ProblemEmitter[K]{source, scope, NewEmitter[K](slices.Equal[[]config.Problem])}
}

// Clone returns a copy with the same emitted Problems that changes independently.
func (p *ProblemEmitter[K]) Clone() *ProblemEmitter[K] {
	return &ProblemEmitter[K]{p.source, p.scope, p.emitted.Clone()}
}

// Emit appends to out an event that replaces the Problems of scope k by list, if list differs from
// the one emitted last for k. An empty list clears them; if none were emitted, nothing is appended.
// The emitter keeps list, which must not be changed afterwards.
func (p *ProblemEmitter[K]) Emit(out mesh.Batch, k K, list []config.Problem) mesh.Batch {
	if len(list) == 0 {
		p.emitted.Delete(k)
	} else {
		p.emitted.Set(k, list)
	}
	for _, x := range p.emitted.Drain() {
		problems := &mesh.Problems{Scope: p.scope(k), List: x.New}
		out = append(out, mesh.Event{Source: p.source, Problems: problems})
	}
	return out
}

// Replace appends an event for each scope whose Problems differ from those in problems, sorted by
// the name of the scope. Scopes that are not in problems, or have an empty list there, are cleared.
// The emitter keeps the lists.
func (p *ProblemEmitter[K]) Replace(out mesh.Batch, problems map[K][]config.Problem) mesh.Batch {
	start := len(out)
	for k, list := range problems {
		out = p.Emit(out, k, list)
	}
	for k := range p.emitted.Keys() {
		if len(problems[k]) == 0 {
			out = p.Emit(out, k, nil)
		}
	}
	slices.SortFunc(out[start:], func(a, b mesh.Event) int { return strings.Compare(a.Problems.Scope, b.Problems.Scope) })
	return out
}
