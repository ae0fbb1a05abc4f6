package scenario

import (
	"fmt"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// singleChanges makes changes of a kind one by one in the namespace that every proxy sees.
func singleChanges(c workload.Change) func(*bench, *report.Row) error { return singleIn(c, 0) }

// singleIn makes them in the i-th namespace.
func singleIn(c workload.Change, i int) func(*bench, *report.Row) error {
	return func(b *bench, row *report.Row) error {
		namespace := workload.NamespaceName(i)
		row.Events = b.Repeat
		if c == workload.RemoveService {
			row.Events = min(b.Repeat, len(b.added))
		}
		var events [][]float64
		p := b.beginMeasurement()
		var failed error
		for range row.Events {
			x, err := b.makeChange(c, namespace)
			if err != nil {
				return err
			}
			failed = b.waitFor(x.Done, "the change at all proxies")
			b.awaitQuiet()
			list, missing := x.Arrivals()
			events, row.Missing = append(events, latencyValues(list)), row.Missing+missing
			if failed != nil {
				break
			}
		}
		b.endMeasurement(p, row)
		row.Latency = report.NewLatency(events)
		if failed == nil {
			failed = b.tooMany(row, namespace)
		}
		return failed
	}
}

// tooMany returns an error if proxies were sent a change of a namespace that they do not see.
func (b *bench) tooMany(row *report.Row, namespace string) error {
	see := 0
	for i := range b.proxies {
		if b.seesNamespace(i, namespace) {
			see++
		}
	}
	if row.Reached > see && b.Plane.Kind == target.Meshpilot {
		return fmt.Errorf("%d proxies were sent something for a change that %d see", row.Reached, see)
	}
	return nil
}

func (b *bench) seesNamespace(proxy int, namespace string) bool {
	return proxy < b.proxies && !b.exclude[proxy] && b.mesh.SeesNamespace(proxy, namespace)
}

// makeChange makes the next change of a kind and sends it off.
func (b *bench) makeChange(c workload.Change, namespace string) (*fleet.Change, error) {
	mark := workload.Mark{Change: c}
	if c == workload.RemoveService {
		mark.Number, b.added = b.added[0], b.added[1:]
	} else {
		b.marks++
		mark.Number = b.marks
	}
	n := b.turns[c]
	b.turns[c]++
	e, err := b.mesh.MakeChange(c, namespace, n, mark.Number)
	if err != nil {
		return nil, err
	}
	if c == workload.AddService {
		b.added = append(b.added, mark.Number)
	}
	return b.sendEdit(e, mark, namespace)
}

// sendEdit sends an edit off and follows its mark.
func (b *bench) sendEdit(e workload.Edit, mark workload.Mark, namespace string) (*fleet.Change, error) {
	before := b.latest[e.Target]
	if before != nil && before.IsDone() {
		before = nil // it is not waited for any more
	}
	b.lastMark = mark
	x := b.fleet.Expect(mark, before, func(i int) bool { return b.seesNamespace(i, namespace) })
	b.latest[e.Target] = x
	return x, b.feed.Apply(e, x.Begin)
}
