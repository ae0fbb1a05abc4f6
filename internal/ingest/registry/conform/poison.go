package conform

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// RunPoisoned checks that a panic of a Converter affects only the object that causes it. Each of
// the objects in turn gets a version without a spec, on which Converters panic. Its last good
// version must stay in use, all other objects must be converted, a Problem must name it, and its
// next good version must be used. newConverter returns a Converter that confines panics with the
// Recorder.
func RunPoisoned(t *testing.T, newConverter func(*recovery.Recorder) registry.Converter, objects mesh.Batch) {
	t.Helper()
	for i := range objects {
		t.Run(objects[i].Config.Key.String(), func(t *testing.T) {
			others := slices.Delete(slices.Clone(objects), i, i+1)
			p := poisoned{T: t, new: newConverter, victim: objects[i].Config, others: others}
			p.testLaterVersion()
			p.testFirstVersion()
		})
	}
}

type poisoned struct {
	*testing.T
	new    func(*recovery.Recorder) registry.Converter
	victim *config.Config
	others mesh.Batch

	panics int
	log    strings.Builder
}

// recorder returns a Recorder that counts panics in p.panics and logs them to p.log.
func (p *poisoned) recorder() *recovery.Recorder {
	return recovery.New(
		recovery.Options{Count: func(string) { p.panics++ }, Log: slog.New(slog.NewTextHandler(&p.log, nil))},
	)
}

// version returns a copy of the victim whose hash is increased by n. Its spec is shared.
func (p *poisoned) version(n uint64) *config.Config {
	c := *p.victim
	c.Hash += n
	return &c
}

// poison returns a version of the victim without a spec, on which Converters panic.
func (p *poisoned) poison() *config.Config {
	c := p.version(1)
	c.Spec = nil
	return c
}

// testLaterVersion sends a good version, a poisoned one together with the others, and a good one
// again. The poisoned one must be logged and reported, and the last good one must stay. A fixed
// version must clear the Problem.
func (p *poisoned) testLaterVersion() {
	p.Helper()
	want := p.outcome(p.new(nil), upserts(p.victim), p.others)
	c := p.new(p.recorder())
	got := newOutcome()
	got.applyEvents(c.Convert(upserts(p.victim)))
	got.applyEvents(c.Convert(slices.Concat(upserts(p.poison()), p.others)))
	if p.panics == 0 || !strings.Contains(p.log.String(), "object="+p.victim.Key.String()) {
		p.Fatalf("%d panics, log %s", p.panics, p.log.String())
	}
	if named := got.objectsWithProblem(); !slices.Equal(named, []string{p.victim.Key.String()}) {
		p.Errorf("named are %v", named)
	}
	if diff := cmp.Diff(want.comparable(), got.comparable()); diff != "" {
		p.Errorf("a poisoned version after a good one (-want +got):\n%s", diff)
	}
	got.applyEvents(c.Convert(upserts(p.version(2))))
	if diff := cmp.Diff(want.comparable(), got.comparable()); diff != "" || len(got.objectsWithProblem()) > 0 {
		p.Errorf("fixed: named are %v (-want +got):\n%s", got.objectsWithProblem(), diff)
	}
}

// testFirstVersion sends a poisoned version of the victim as its first, with the others: exactly
// one object must have a Problem. It then deletes the victim, and then sends a poisoned and a good
// version of it. After the deletion and after the good version, the output must be as if no version
// had been poisoned, without Problems.
func (p *poisoned) testFirstVersion() {
	p.Helper()
	c := p.new(p.recorder())
	got := newOutcome()
	got.applyEvents(c.Convert(slices.Concat(p.others, upserts(p.poison()))))
	if len(got.objectsWithProblem()) != 1 {
		p.Errorf("named are %v", got.objectsWithProblem())
	}
	gone := mesh.Event{Op: mesh.Delete, Source: "test", Config: &config.Config{Meta: config.Meta{Key: p.victim.Key}}}
	got.applyEvents(c.Convert(mesh.Batch{gone}))
	if diff := cmp.Diff(p.outcome(p.new(nil), p.others).comparable(), got.comparable()); diff != "" ||
		len(got.objectsWithProblem()) > 0 {
		p.Errorf("deleted: named are %v (-want +got):\n%s", got.objectsWithProblem(), diff)
	}
	got.applyEvents(c.Convert(upserts(p.poison())))
	got.applyEvents(c.Convert(upserts(p.version(2))))
	if diff := cmp.Diff(p.outcome(p.new(nil), p.others, upserts(p.victim)).comparable(),
		got.comparable()); diff != "" ||
		len(got.objectsWithProblem()) > 0 {
		p.Errorf("a good version after a poisoned one: named are %v (-want +got):\n%s", got.objectsWithProblem(), diff)
	}
}

// upserts returns the upserts of the objects in list, from the source "test".
func upserts(list ...*config.Config) mesh.Batch {
	var batch mesh.Batch
	for _, c := range list {
		batch = append(batch, mesh.Event{Source: "test", Config: c})
	}
	return batch
}

// outcome is the state after the emitted events. Besides State it has the objects that the
// Converter creates or passes through, without the ones that it received.
type outcome struct {
	*State
	made map[config.Key]uint64
}

// newOutcome returns an outcome before any event.
func newOutcome() *outcome { return &outcome{NewState(), map[config.Key]uint64{}} }

// outcome returns the outcome of converting the batches one after another with c.
func (p *poisoned) outcome(c registry.Converter, batches ...mesh.Batch) *outcome {
	o := newOutcome()
	for _, b := range batches {
		o.applyEvents(c.Convert(slices.Clone(b)))
	}
	return o
}

// applyEvents applies emitted events, and records the hashes of the config objects of the registry
// itself in o.made. Errors of the contract are not reported here.
func (o *outcome) applyEvents(batch mesh.Batch) {
	_ = o.Apply(batch) // a Problem may be sent again
	for _, e := range batch {
		switch {
		case e.Config == nil || e.Source == "test":
		case e.Op == mesh.Delete:
			delete(o.made, e.Config.Key)
		default:
			o.made[e.Config.Key] = e.Config.Hash
		}
	}
}

// objectsWithProblem returns the keys of the objects that have a Problem of a panic, sorted and
// without duplicates.
func (o *outcome) objectsWithProblem() []string {
	var list []string
	for scope, problems := range o.Problems {
		if strings.HasPrefix(scope, "panic: ") {
			list = append(list, problems[0].Key.String())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// comparable returns the part of the outcome that is compared: everything but Problems of panics.
func (o *outcome) comparable() map[string]any {
	problems := maps.Clone(o.Problems)
	maps.DeleteFunc(
		problems,
		func(scope string, _ []config.Problem) bool { return strings.HasPrefix(scope, "panic: ") },
	)
	return map[string]any{
		"services":  o.Services,
		"shards":    o.Shards,
		"workloads": o.Workloads,
		"problems":  problems,
		"made":      o.made,
	}
}
