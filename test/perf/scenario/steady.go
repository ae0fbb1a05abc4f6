package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Soak is a steady load.
type Soak struct {
	Duration         time.Duration
	ChangesPerMinute int
	// Sample is the interval between samples of memory, goroutines and files. Each sample edits two
	// routes and waits until all proxies have them, during which no other change is made.
	Sample time.Duration
}

// Steady changes configuration at a steady rate and samples the process's memory. The values
// heap_drift, rss_drift, goroutines_drift and files_drift are in percent over the second half
// (report.Drift) of the lowest of each sampleWindow samples. It fails if a change does not arrive
// everywhere in time or a stream ends.
func Steady(s Soak) Scenario {
	return Scenario{"steady load", 0, func(b *bench, row *report.Row) error {
		b.awaitQuiet()
		run := &steady{bench: b, samples: map[string][]float64{}}
		reconnects := b.fleet.Stats().Reconnects
		p := b.beginMeasurement()
		err := run.runSteady(s)
		b.awaitQuiet()
		b.endMeasurement(p, row)
		row.Events, row.Latency = run.made, run.latencies.Latency()
		for name, list := range run.samples {
			row.Values[name+"_drift"] = report.Drift(lowest(list))
			row.Values[name+"_last"] = list[len(list)-1]
		}
		row.Values["samples"] = float64(len(run.samples["heap"]))
		row.Values["streams_ended"] = float64(b.fleet.Stats().Reconnects - reconnects)
		return err
	}}
}

// sampleWindow is the number of successive samples of which only the lowest is used. The heap has a few
// recurring sizes, according to how many versions of the routes are still held; a leak raises the
// lowest of them too.
const sampleWindow = 4

// lowest returns the lowest value of each window of sampleWindow samples. Samples that do not fill a
// window are left out, but if there is no full window, it returns all samples.
func lowest(samples []float64) []float64 {
	if len(samples) < sampleWindow {
		return samples
	}
	var list []float64
	for ; len(samples) >= sampleWindow; samples = samples[sampleWindow:] {
		list = append(list, slices.Min(samples[:sampleWindow]))
	}
	return list
}

// steady is a steady load that runs.
type steady struct {
	*bench
	made      int
	pending   []pendingChange
	latencies report.Histogram
	samples   map[string][]float64
}

type pendingChange struct {
	*fleet.Change
	mark workload.Mark
	due  time.Time
}

// reusedMarks bounds the numbers of marks: there are not many for endpoints. A mark is free again
// when its change is done.
const reusedMarks = 15_000

func (s *steady) runSteady(o Soak) error {
	kinds := []workload.Change{
		workload.EndpointEdit,
		workload.RouteEdit,
		workload.RuleEdit,
		workload.EndpointEdit,
		workload.AddService,
		workload.RemoveService,
	}
	changes := time.NewTicker(time.Minute / time.Duration(o.ChangesPerMinute))
	defer changes.Stop()
	samples := time.NewTicker(o.Sample)
	defer samples.Stop()
	end := time.After(o.Duration)
	for {
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-s.process.Exited():
			return errors.New("the control plane ended")
		case <-end:
			return s.awaitPending()
		case <-changes.C:
			if err := s.makeChange(kinds[s.made%len(kinds)]); err != nil {
				return err
			}
			if err := s.collectLatencies(); err != nil {
				return err
			}
		case <-samples.C:
			if err := s.takeSample(); err != nil {
				return err
			}
		}
	}
}

// awaitPending waits until all proxies have the changes that were made.
func (s *steady) awaitPending() error {
	for len(s.pending) > 0 {
		if err := s.waitFor(s.pending[0].Done, "the last changes at all proxies"); err != nil {
			return err
		}
		if err := s.collectLatencies(); err != nil {
			return err
		}
	}
	return nil
}

func (s *steady) makeChange(kind workload.Change) error {
	if s.marks >= reusedMarks {
		s.marks = 0
	}
	if kind == workload.RemoveService && !s.canRemove() {
		kind = workload.AddService
		if len(s.added) > 0 {
			kind = workload.EndpointEdit
		}
	}
	x, err := s.bench.makeChange(kind, workload.SharedNamespace)
	if err != nil {
		return err
	}
	s.made++
	s.pending = append(s.pending, pendingChange{Change: x, mark: s.lastMark, due: time.Now().Add(s.Patience)})
	return nil
}

// canRemove reports whether the oldest added service is at all proxies. A proxy that is behind would
// be sent neither its addition nor its removal, and the test would wait for both.
func (s *steady) canRemove() bool {
	if len(s.added) == 0 {
		return false
	}
	oldest := workload.Mark{Change: workload.AddService, Number: s.added[0]}
	return !slices.ContainsFunc(s.pending, func(x pendingChange) bool { return x.mark == oldest && !x.IsDone() })
}

// collectLatencies counts the latencies of the changes that are done and forgets these changes.
func (s *steady) collectLatencies() error {
	kept := s.pending[:0]
	for _, x := range s.pending {
		select {
		case <-x.Done:
			list, _ := x.Arrivals()
			for _, a := range list {
				s.latencies.Add(milliseconds(a.After))
			}
			s.fleet.Forget(x.mark)
			continue
		default:
		}
		if time.Now().After(x.due) {
			_, missing := x.Arrivals()
			return fmt.Errorf("%d proxies do not have change %v after %v", missing, x.mark, s.Patience)
		}
		kept = append(kept, x)
	}
	clear(s.pending[len(kept):])
	s.pending = kept
	return nil
}

// takeSample samples the process while it is idle and every class of proxies has the newest routes.
// During a push the heap also contains the responses that are being sent, and a class whose routes did
// not change holds those of an earlier snapshot: both depend on the moment and could hide a leak.
func (s *steady) takeSample() error {
	for range 2 {
		if err := s.makeChange(workload.RouteEdit); err != nil {
			return err
		}
		if err := s.awaitPending(); err != nil {
			return err
		}
		s.awaitQuiet()
	}
	m := s.process.Memory(true)
	for name, v := range map[string]float64{
		"heap":       float64(m.Heap),
		"rss":        float64(m.RSS),
		"goroutines": s.process.Metrics()[target.Goroutines],
		"files":      float64(s.process.Files()),
	} {
		s.samples[name] = append(s.samples[name], v)
	}
	return nil
}
