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

// point is the state of all counters at a moment.
type point struct {
	at                  time.Time
	plane, own, machine time.Duration
	stats               fleet.Stats
	heard               []int64
	metrics             target.Metrics
}

// beginMeasurement starts a measurement. The control plane's pages are read before its CPU time at
// the start, and after it at the end, so that reading them is not measured.
func (b *bench) beginMeasurement() point {
	m := b.process.Metrics()
	return point{
		metrics: m, stats: b.fleet.Stats(), heard: b.fleet.MessagesReceived(), machine: target.MachineCPU(), own: target.OwnCPU(),
		plane: b.process.CPU(), at: time.Now(),
	}
}

// endMeasurement adds the usage since then to the row.
func (b *bench) endMeasurement(p point, row *report.Row) {
	now := time.Now()
	plane, own, machine := b.process.CPU()-p.plane, target.OwnCPU()-p.own, target.MachineCPU()-p.machine
	stats, heard, metrics := b.fleet.Stats(), b.fleet.MessagesReceived(), b.process.Metrics()
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

// awaitQuiet waits until no message has arrived for the settle time, and the control plane used
// almost no CPU in it.
func (b *bench) awaitQuiet() {
	const (
		look = 10 * time.Millisecond
		busy = 0.1 // of a CPU
	)
	limit := time.After(b.Patience)
	t := time.NewTicker(look)
	defer t.Stop()
	since, cpu := time.Now(), b.process.CPU()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-limit:
			return
		case <-t.C:
		}
		if last := b.fleet.Stats().Last; last.After(since) {
			since, cpu = time.Now(), b.process.CPU()
			continue
		}
		if gone := time.Since(since); gone >= b.Settle {
			if now := b.process.CPU(); (now - cpu).Seconds() <= busy*gone.Seconds() {
				return
			}
			since, cpu = time.Now(), b.process.CPU()
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
