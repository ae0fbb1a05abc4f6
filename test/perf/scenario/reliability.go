package scenario

import (
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Scenarios of the reliability checks (docs/SCORECARD.md), at sizes that the caller chooses.

// Connect brings all proxies in at once, as new pods. It must come first.
func Connect() Scenario { return Scenario{"connect", 1, connectAll} }

// Restart replaces the process; the proxies reconnect with their state.
func Restart() Scenario { return Scenario{"restart", 2, restartProcess} }

// Single makes single changes of a kind and waits for each (Options.Repeat).
func Single(c workload.Change) Scenario { return Scenario{string(c), 3, singleChanges(c)} }

// QuietEdits makes edits that no proxy can see.
func QuietEdits(c workload.Change) Scenario { return Scenario{string(c), 9, quietEdits(c)} }

// ComeAndGo connects and disconnects all proxies so many times.
func ComeAndGo(rounds int) Scenario { return Scenario{"come and go", 0, comeAndGo(rounds)} }

// Churn changes endpoints at a steady rate per second.
func Churn(rate, seconds int) Scenario { return Scenario{"churn", 5, rollingUpdate(rate, seconds)} }

// SlowClients has so many proxies read next to nothing, and so many others read slowly, and makes
// 16 changes so many times, half of them during that time. The values p99_without_ms and
// p99_with_ms are for the other proxies.
func SlowClients(blocked, slow, times int) Scenario {
	return Scenario{"slow clients", 13, func(b *bench, row *report.Row) error {
		rates := map[int]int64{}
		for i := range min(blocked+slow, b.proxies) {
			rates[i] = slowRate
			if i < blocked {
				rates[i] = blockedRate
			}
		}
		return slowClients(b, row, rates, times)
	}}
}

// Verify compares proxies with newcomers of the same nodes.
func Verify() Scenario { return Scenario{"verify", 0, verifyNewcomers} }

// A Ramp is how Streams adds proxies.
type Ramp struct {
	// First is the first number of proxies. Each step has half as many again, up to all.
	First int
	// P99 is the longest bearable 99th percentile of a change, Memory the most bytes of resident
	// memory.
	P99    time.Duration
	Memory int64
}

// Streams connects ever more proxies and makes changes at each step. The value streams is the
// largest number at which changes were everywhere in time and memory sufficed, stopped_by_latency
// or stopped_by_memory why there were no more.
func Streams(r Ramp) Scenario {
	return Scenario{"streams", 0, func(b *bench, row *report.Row) error {
		b.awaitQuiet()
		row.Values["streams"] = 0
		p := b.beginMeasurement()
		defer func() { b.endMeasurement(p, row) }()
		connected := 0
		for n := min(r.First, b.proxies); ; n = min(n+n/2, b.proxies) {
			if err := b.waitFor(
				b.fleet.DisconnectProxies(fleet.IndexRange(connected, n), true).Start().Done,
				"all proxies in sync",
			); err != nil {
				row.Values["stopped_by_latency"] = 1
				return nil
			}
			connected = n
			b.awaitQuiet()
			latency, err := b.makeChanges(3)
			if err != nil {
				return err
			}
			row.Events++
			row.Latency = latency
			switch memory := b.process.Memory(false); {
			case latency.P99 > milliseconds(r.P99):
				row.Values["stopped_by_latency"] = 1
				return nil
			case memory.RSS > r.Memory:
				row.Values["stopped_by_memory"] = 1
				return nil
			default:
				row.Values["streams"] = float64(n)
				row.Values["p99_ms"] = latency.P99
				row.Values["rss_mib"] = float64(memory.RSS) / kib / kib
			}
			if n == b.proxies {
				return nil
			}
		}
	}}
}

// makeChanges makes so many changes of each kind of everyday and returns their latencies.
func (b *bench) makeChanges(times int) (report.Latency, error) {
	var events [][]float64
	for range times {
		for _, c := range []workload.Change{workload.EndpointEdit, workload.RouteEdit, workload.RuleEdit} {
			x, err := b.makeChange(c, workload.SharedNamespace)
			if err != nil {
				return report.Latency{}, err
			}
			if err := b.waitFor(x.Done, fmt.Sprintf("a change of kind %s at all proxies", c)); err != nil {
				return report.Latency{}, err
			}
			list, _ := x.Arrivals()
			events = append(events, latencyValues(list))
		}
	}
	return report.NewLatency(events), nil
}
