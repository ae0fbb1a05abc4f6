package scenario

import (
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// rollingRate is how many endpoint changes a second a rolling update of the everyday scenarios
// makes.
const rollingRate = 50

// rollingUpdate changes one endpoint after the other, at a steady rate, over the services of the
// shared namespace in turn. The latencies are the staleness of the proxies' endpoints.
func rollingUpdate(rate, seconds int) func(*bench, *report.Row) error {
	return func(b *bench, row *report.Row) error {
		row.Events = rate * seconds
		p := b.beginMeasurement()
		began := time.Now()
		var list []*fleet.Change
		for i := range row.Events {
			b.pauseFor(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
			x, err := b.makeChange(workload.EndpointEdit, workload.SharedNamespace)
			if err != nil {
				return err
			}
			list = append(list, x)
		}
		row.Values["made_in_s"] = time.Since(began).Seconds()
		return b.awaitChanges(list, p, row)
	}
}

// awaitChanges waits until all changes have arrived, and fills the row.
func (b *bench) awaitChanges(list []*fleet.Change, p point, row *report.Row) error {
	var failed error
	for _, x := range list {
		if failed = b.waitFor(x.Done, "all changes at all proxies"); failed != nil {
			break
		}
	}
	b.awaitQuiet()
	b.endMeasurement(p, row)
	var events [][]float64
	for _, x := range list {
		arrivals, missing := x.Arrivals()
		events, row.Missing = append(events, latencyValues(arrivals)), row.Missing+missing
	}
	row.Latency = report.NewLatency(events)
	return failed
}
