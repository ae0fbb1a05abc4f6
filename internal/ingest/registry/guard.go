package registry

import (
	"errors"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Guard confines a panic of a Converter to the object over which it panics: the object's last good version stays in use, a
// Problem names it, and the other objects go on. It is used by the Converter's goroutine. The zero value lets panics pass.
type Guard struct {
	// Recovery logs and counts; nil lets panics pass.
	Recovery *recovery.Recorder
	// Source is the source of the Problems.
	Source string

	failed map[guardedStep]bool
}

// Step is what a Converter does with an object.
type Step string

// The steps. An object may have one Problem of each.
const (
	// Read takes an object up into the Converter's state.
	Read Step = "read"
	// Convert makes services, shards and workloads of it.
	Convert Step = "convert"
)

type guardedStep struct {
	key  config.Key
	step Step
}

// Try calls f for one step of an object, and reports whether f returned without a panic. It appends a Problem to the batch if
// f panics, and the end of that Problem once f returns again.
//
// f must read all that it needs of the object before it changes the Converter: a panic in between leaves half a change.
func (g *Guard) Try(out mesh.Batch, step Step, key config.Key, origin string, f func()) (mesh.Batch, bool) {
	if g.Recovery == nil {
		f()
		return out, true
	}
	at := guardedStep{key, step}
	err := g.Recovery.Call("converter", func() error { f(); return nil }, "object", key.String(), "origin", origin, "source", g.Source, "step", string(step))
	if err == nil {
		return g.Passed(out, step, key), true
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
		Key: key, Origin: origin, Severity: config.Error, Reason: text + ". This version is not used; the last good one stays in use",
	})), false
}

// Passed appends the end of the Problem of an object's step, if it has one.
func (g *Guard) Passed(out mesh.Batch, step Step, key config.Key) mesh.Batch {
	at := guardedStep{key, step}
	if !g.failed[at] {
		return out
	}
	delete(g.failed, at)
	return append(out, g.problem(at))
}

func (g *Guard) problem(at guardedStep, list ...config.Problem) mesh.Event {
	return mesh.Event{Source: g.Source, Problems: &mesh.Problems{Scope: "panic: " + string(at.step) + " " + at.key.String(), List: list}}
}
