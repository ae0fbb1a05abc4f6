package scenario

import (
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// idleTime is for how long nothing happens.
const idleTime = 5 * time.Second

// measureIdle does nothing. The CPU time is the cost of a quiet mesh; nothing may be sent.
func measureIdle(b *bench, row *report.Row) error {
	p := b.beginMeasurement()
	b.pauseFor(idleTime)
	b.endMeasurement(p, row)
	m := b.process.Memory(true)
	row.Memory = &m
	row.Values["cpu_ms_per_s"] = row.Usage.CPU * 1e6 / row.Usage.WallMS
	return b.checkSilent(row)
}

// checkSilent returns an error if something was sent.
func (b *bench) checkSilent(row *report.Row) error {
	if row.Usage.Messages > 0 && b.Plane.Kind == target.Meshpilot {
		return fmt.Errorf("%d messages were sent, though nothing changed", row.Usage.Messages)
	}
	return nil
}

// quietEdits makes edits that change nothing that a proxy could see, as GitOps tools, status
// writers and resyncs do. A real change afterwards shows that the control plane still listens.
func quietEdits(c workload.Change) func(*bench, *report.Row) error {
	const (
		edits = 50
		every = 20 * time.Millisecond
	)
	return func(b *bench, row *report.Row) error {
		row.Events = edits
		p := b.beginMeasurement()
		for range edits {
			n := b.turns[c]
			b.turns[c]++
			b.marks++
			e, err := b.mesh.MakeChange(c, workload.SharedNamespace, n, b.marks)
			if err != nil {
				return err
			}
			if err := b.feed.Apply(e, func() {}); err != nil {
				return err
			}
			b.pauseFor(every)
		}
		b.awaitQuiet()
		b.endMeasurement(p, row)
		if err := b.checkSilent(row); err != nil {
			return err
		}
		x, err := b.makeChange(workload.EndpointEdit, workload.SharedNamespace)
		if err == nil {
			err = b.waitFor(x.Done, "a change after edits that change nothing")
		}
		b.awaitQuiet()
		return err
	}
}
