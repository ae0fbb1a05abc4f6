package scenario

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

const (
	slowShare = 20       // one in so many
	slowRate  = 10 << 10 // bytes a second
	// blockedRate is the rate of a practically blocked client.
	blockedRate = 1
)

// slowReaders makes one proxy in twenty read 10 KB a second, and looks whether the others notice:
// single changes of routes and endpoints without, with, with, and without.
func slowReaders(b *bench, row *report.Row) error {
	rates := map[int]int64{}
	for i := 0; i < b.proxies; i += slowShare {
		rates[i] = slowRate
	}
	return slowClients(b, row, rates, 1)
}

// slowClients is slowReaders for proxies with rates of their own, so many times.
func slowClients(b *bench, row *report.Row, rates map[int]int64, times int) error {
	slow := slices.Sorted(maps.Keys(rates))
	b.exclude = map[int]bool{}
	for _, i := range slow {
		b.exclude[i] = true
	}
	defer func() { b.exclude = nil }()
	b.fleet.LimitReadRate(slow, fleet.Unhurried)
	if err := b.waitFor(b.fleet.DisconnectProxies(slow, false).Start().Done, "slow proxies in sync"); err != nil {
		return err
	}
	b.awaitQuiet()
	p := b.beginMeasurement()
	latencies := map[bool][][]float64{}
	row.Events = 0
	for _, with := range slices.Repeat([]bool{false, true, true, false}, times) {
		for i, rate := range rates {
			if !with {
				rate = fleet.Unhurried
			}
			b.fleet.LimitReadRate([]int{i}, rate)
		}
		changes := []workload.Change{
			workload.RouteEdit,
			workload.EndpointEdit,
			workload.RouteEdit,
			workload.EndpointEdit,
		}
		for _, c := range changes {
			x, err := b.makeChange(c, workload.SharedNamespace)
			if err == nil {
				err = b.waitFor(x.Done, "the change at the other proxies")
			}
			if err != nil {
				return err
			}
			row.Events++
			list, missing := x.Arrivals()
			latencies[with] = append(latencies[with], latencyValues(list))
			row.Missing += missing
			b.pauseFor(b.Settle)
		}
	}
	b.fleet.LimitReadRate(slow, fleet.Unhurried)
	b.awaitQuiet()
	b.endMeasurement(p, row)
	without := report.NewLatency(latencies[false])
	row.Latency = report.NewLatency(latencies[true])
	row.Values["p99_without_ms"], row.Values["p99_with_ms"] = without.P99, row.Latency.P99
	row.Values["median_without_ms"], row.Values["median_with_ms"] = without.Median, row.Latency.Median
	if without.P99 > 0 {
		row.Values["p99_ratio"] = row.Latency.P99 / without.P99
	}
	b.fleet.LimitReadRate(slow, 0)
	err := b.waitFor(b.fleet.DisconnectProxies(slices.Clone(slow), false).Start().Done, "slow proxies in sync again")
	b.awaitQuiet()
	return err
}
