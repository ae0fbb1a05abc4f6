package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// point is the state of all counters at a moment. plane is the sum over the processes.
type point struct {
	at                  time.Time
	processes           []*target.Process
	plane, own, machine time.Duration
	stats               fleet.Stats
	heard               []int64
	metrics             target.Metrics
}

// beginMeasurement starts a measurement of all control planes that run.
func (b *bench) beginMeasurement() point { return b.beginMeasuring(b.running()) }

// beginMeasuring starts a measurement of the processes. Their pages are read before their CPU time
// at the start, and after it at the end, so that reading them is not measured.
func (b *bench) beginMeasuring(processes []*target.Process) point {
	m := metricsOf(processes)
	return point{
		processes: processes, metrics: m, stats: b.fleet.Stats(), heard: b.fleet.MessagesReceived(),
		machine: target.MachineCPU(), own: target.OwnCPU(), plane: cpuOf(processes), at: time.Now(),
	}
}

// cpuOf returns the CPU time of all processes.
func cpuOf(processes []*target.Process) (sum time.Duration) {
	for _, x := range processes {
		sum += x.CPU()
	}
	return sum
}

// metricsOf returns the sum of the metrics of all processes.
func metricsOf(processes []*target.Process) target.Metrics {
	sum := target.Metrics{}
	for _, x := range processes {
		for name, v := range x.Metrics() {
			sum[name] += v
		}
	}
	return sum
}

// endMeasurement adds the usage since then to the row.
func (b *bench) endMeasurement(p point, row *report.Row) {
	now := time.Now()
	plane, own, machine := cpuOf(p.processes)-p.plane, target.OwnCPU()-p.own, target.MachineCPU()-p.machine
	stats, heard, metrics := b.fleet.Stats(), b.fleet.MessagesReceived(), metricsOf(p.processes)
	u := &row.Usage
	u.WallMS += milliseconds(now.Sub(p.at))
	u.CPU += plane.Seconds()
	u.FleetCPU += own.Seconds()
	u.OtherCPU += max(0, machine-plane-own).Seconds()
	u.AllocatedBytes += metrics[target.AllocatedBytes] - p.metrics[target.AllocatedBytes]
	u.Allocations += metrics[target.AllocatedObjects] - p.metrics[target.AllocatedObjects]
	if u.Types == nil {
		u.Types = map[string]fleet.Traffic{}
	}
	for t := range stats.Traffic {
		x, y := stats.Traffic[t], p.stats.Traffic[t]
		d := u.Types[wire.Type(t).String()]
		d.Messages += x.Messages - y.Messages
		d.Bytes += x.Bytes - y.Bytes
		d.Resources += x.Resources - y.Resources
		d.Removed += x.Removed - y.Removed
		if d.Messages > 0 {
			u.Types[wire.Type(t).String()] = d
		}
		u.Messages += x.Messages - y.Messages
		u.Bytes += x.Bytes - y.Bytes
	}
	reached := 0
	for i := range heard {
		if heard[i] > p.heard[i] {
			reached++
		}
	}
	row.Reached = max(row.Reached, reached)
}

// awaitQuiet waits until no message has arrived for the settle time, and the control planes used
// almost no CPU in it.
func (b *bench) awaitQuiet() {
	const (
		look = 10 * time.Millisecond
		busy = 0.1 // of a CPU, for each
	)
	limit := time.After(b.Patience)
	t := time.NewTicker(look)
	defer t.Stop()
	processes := b.running()
	since, cpu := time.Now(), cpuOf(processes)
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-limit:
			return
		case <-t.C:
		}
		if last := b.fleet.Stats().Last; last.After(since) {
			since, cpu = time.Now(), cpuOf(processes)
			continue
		}
		if gone := time.Since(since); gone >= b.Settle {
			if now := cpuOf(processes); (now - cpu).Seconds() <= busy*float64(len(processes))*gone.Seconds() {
				return
			}
			since, cpu = time.Now(), cpuOf(processes)
		}
	}
}

// waitFor waits for something to be done.
func (b *bench) waitFor(done <-chan struct{}, what string) error {
	limit := time.NewTimer(b.Patience)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-b.process.Exited():
		return errors.New("the control plane ended")
	case <-limit.C:
		return fmt.Errorf("%s: not within %v", what, b.Patience)
	}
}

// pauseFor waits.
func (b *bench) pauseFor(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-b.ctx.Done():
	case <-t.C:
	}
}

// latencyValues returns latencies in milliseconds.
func latencyValues(list []fleet.Arrival) []float64 {
	out := make([]float64, len(list))
	for i, a := range list {
		out[i] = milliseconds(a.After)
	}
	return out
}
