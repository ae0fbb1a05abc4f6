package registry

import (
	"errors"
	"maps"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Guard confines a panic of a Converter to one object: the last version of the object that could be
// converted stays in use, the object gets a Problem, and other objects are processed. A Guard must
// be used by one goroutine at a time. The zero value lets panics propagate.
type Guard struct {
	// Recovery logs and counts panics. If nil, they propagate.
	Recovery *recovery.Recorder
	// Source is the source of the Problems.
	Source string

	failed map[guardedStep]bool
}

// Clone returns a copy with the same recorded panics that changes independently.
func (g *Guard) Clone() Guard {
	return Guard{Recovery: g.Recovery, Source: g.Source, failed: maps.Clone(g.failed)}
}

// Step is a phase of the conversion of an object.
type Step string

// The steps. An object can have one Problem per step.
const (
	// Read stores an object in the Converter's state.
	Read Step = "read"
	// Convert computes services, shards and workloads from it.
	Convert Step = "convert"
	// Report computes the status and Problems of an object that is converted in another step.
	Report Step = "report"
)

type guardedStep struct {
	key  config.Key
	step Step
}

// Try calls f for one step of an object, and reports whether f returned without a panic. After a
// panic it appends a Problem of the object to out; otherwise it clears the Problem of an earlier
// panic in that step. Without Recovery a panic is not recovered.
//
// f must read all that it needs of the object before it changes the Converter's state. Otherwise a
// panic leaves a partial change.
func (g *Guard) Try(out mesh.Batch, step Step, key config.Key, origin string, f func()) (mesh.Batch, bool) {
	if g.Recovery == nil {
		f()
		return out, true
	}
	at := guardedStep{key, step}
	err := g.Recovery.Call(
		"converter",
		func() error { f(); return nil },
		"object",
		key.String(),
		"origin",
		origin,
		"source",
		g.Source,
		"step",
		string(step),
	)
	if err == nil {
		return g.ClearProblem(out, step, key), true
	}
	if g.failed == nil {
		g.failed = map[guardedStep]bool{}
	}
	g.failed[at] = true
	text := "internal error, please report it with the control plane's log: "
	if panicked := (*recovery.Error)(nil); errors.As(err, &panicked) {
		text += panicked.Error()
	}
	return append(out, g.problem(at, config.Problem{
		Code: code.InternalError,
		Key:  key, Origin: origin, Severity: config.Error,
		Reason: text + ". This version is not used; the last good one stays in use",
	})), false
}

// ClearProblem appends to out an event that clears the Problem of an earlier panic in an object's
// step. It does nothing if there was none.
func (g *Guard) ClearProblem(out mesh.Batch, step Step, key config.Key) mesh.Batch {
	at := guardedStep{key, step}
	if !g.failed[at] {
		return out
	}
	delete(g.failed, at)
	return append(out, g.problem(at))
}

// problem returns an event that replaces the Problems of an object's step by list, which may be
// empty.
func (g *Guard) problem(at guardedStep, list ...config.Problem) mesh.Event {
	return mesh.Event{
		Source:   g.Source,
		Problems: &mesh.Problems{Scope: "panic: " + string(at.step) + " " + at.key.String(), List: list},
	}
}

// OriginOf returns the origin of an object, the place from which it was read, or "" if object is
// nil.
func OriginOf(object *config.Config) string {
	if object == nil {
		return ""
	}
	return object.Origin
}
