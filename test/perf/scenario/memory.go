package scenario

import (
	"fmt"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

const kib = 1 << 10

// measureSlope connects a quarter of the proxies, then half, then all, and returns the memory per
// additional proxy. Memory shared by all proxies cancels out. growth is the cost of one in the last
// step over that in the step before: 1 is linear.
func measureSlope(b *bench, row *report.Row) error {
	b.awaitQuiet()
	steps := []int{0, max(1, b.proxies/4), max(2, b.proxies/2), b.proxies}
	memory := make([]target.Memory, len(steps))
	memory[0] = b.process.Memory(true)
	p := b.beginMeasurement()
	var events [][]float64
	for i := 1; i < len(steps); i++ {
		r := b.fleet.DisconnectProxies(fleet.IndexRange(steps[i-1], steps[i]), true).Start()
		err := b.waitFor(r.Done, "all proxies in sync")
		b.awaitQuiet()
		memory[i] = b.process.Memory(true)
		list, missing := r.Arrivals()
		events, row.Missing = append(events, latencyValues(list)), row.Missing+missing
		if err != nil {
			return err
		}
	}
	b.endMeasurement(p, row)
	row.Latency, row.Memory = report.NewLatency(events), &memory[3]
	for name, of := range map[string]func(target.Memory) int64{
		"heap_kib_per_proxy": func(m target.Memory) int64 { return m.Heap },
		"pss_kib_per_proxy":  func(m target.Memory) int64 { return m.PSS },
	} {
		each := func(i, j int) float64 { return float64(of(memory[j])-of(memory[i])) / kib / float64(steps[j]-steps[i]) }
		row.Values[name] = each(1, 3)
		row.Values[name+"_with_shared"] = each(0, 3)
		if before := each(1, 2); before != 0 {
			row.Values[name+"_growth"] = each(2, 3) / before
		}
	}
	return b.countClasses(row)
}

// countClasses records the number of classes of proxies, which the control plane reports with each
// push.
func (b *bench) countClasses(row *report.Row) error {
	x, err := b.makeChange(workload.EndpointEdit, workload.SharedNamespace)
	if err == nil {
		err = b.waitFor(x.Done, "a change of an endpoint")
	}
	b.awaitQuiet()
	if n, ok := b.process.Metrics()[target.Classes]; ok {
		row.Values["classes"] = n
	}
	return err
}

// comeAndGo connects and disconnects all proxies many times. Afterwards nothing may be left of
// them.
func comeAndGo(rounds int) func(*bench, *report.Row) error {
	return func(b *bench, row *report.Row) error {
		b.awaitQuiet()
		all := fleet.IndexRange(0, b.proxies)
		// Once before, so that pools and caches are as they will be.
		round := func() error {
			err := b.waitFor(b.fleet.DisconnectProxies(all, true).Start().Done, "all proxies in sync")
			b.fleet.DisconnectProxies(all, true)
			return err
		}
		if err := round(); err != nil {
			return err
		}
		b.awaitQuiet()
		before, goroutines, files := b.process.Memory(true), b.process.Metrics()[target.Goroutines], b.process.Files()
		p := b.beginMeasurement()
		for range rounds {
			if err := round(); err != nil {
				return err
			}
		}
		b.awaitQuiet()
		b.endMeasurement(p, row)
		row.Events = rounds
		after := b.process.Memory(true)
		row.Memory = &after
		moreGoroutines, moreFiles := b.process.Metrics()[target.Goroutines]-goroutines, b.process.Files()-files
		moreHeap := float64(after.Heap - before.Heap)
		row.Values["goroutines_left"] = moreGoroutines
		row.Values["files_left"] = float64(moreFiles)
		row.Values["heap_left_kib"] = moreHeap / kib
		const tolerated = 10 // from this program's own requests
		if moreGoroutines > tolerated || moreFiles > tolerated || moreHeap > float64(before.Heap)/5+1<<20 {
			return fmt.Errorf(
				"after %d x %d streams there are left %.0f goroutines, %d files, %.0f KiB of heap",
				rounds, len(all), moreGoroutines, moreFiles, moreHeap/kib)
		}
		return nil
	}
}
