package scenario

import (
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

const (
	// churnShare of the pods are replaced in each step, one in so many.
	churnShare = 4
	// firstChurn is the rate of the first step, in pods a second; each step doubles it, to
	// lastChurn.
	firstChurn, lastChurn = 10, 320
	// bearable is the maximum time until the last pod is ready, and until a change of an endpoint
	// has reached all proxies.
	bearable = time.Second
)

// measureCapacity measures at which rate pods can be replaced: each is removed with its endpoint
// and returns with another address and without any state. A rate is passed if 99 in 100 pods are
// ready, and 99 in 100 of the proxies have each change, within a second. The latencies are from the
// last step, passed or not: the staleness of the proxies.
func measureCapacity(b *bench, row *report.Row) error {
	p := b.beginMeasurement()
	row.Events = 0
	row.Values["pods_per_s"] = 0
	for rate := firstChurn; rate <= lastChurn; rate *= 2 {
		c, err := b.churnAt(rate)
		if err != nil {
			return err
		}
		row.Events += c.pods
		row.Latency = c.stale
		if c.ready.P99 > milliseconds(bearable) || c.stale.P99 > milliseconds(bearable) {
			break
		}
		row.Values["pods_per_s"] = float64(rate)
		row.Values["cpu_ms_per_pod"] = c.cpu.Seconds() * 1e3 / float64(c.pods)
		row.Values["cpus"] = c.cpu.Seconds() / c.took.Seconds()
		row.Values["ready_p99_ms"] = c.ready.P99
	}
	b.endMeasurement(p, row)
	return nil
}

// churn is one step.
type churn struct {
	pods         int
	cpu, took    time.Duration
	ready, stale report.Latency
}

func (b *bench) churnAt(rate int) (churn, error) {
	c := churn{pods: max(1, b.proxies/churnShare)}
	cpu, began := b.process.CPU(), time.Now()
	var rounds []*fleet.Round
	var moves []*fleet.Change
	for n := range c.pods {
		b.pauseFor(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		i := (n*churnShare + b.turns["churn"]) % b.proxies
		r := b.fleet.DisconnectProxies([]int{i}, true)
		b.marks++
		e, node, err := b.mesh.MovePod(i, b.marks)
		if err != nil {
			return c, err
		}
		r.ReplaceNode(node.Bytes)
		x, err := b.sendEdit(e, workload.Mark{Change: workload.EndpointEdit, Number: b.marks}, b.mesh.ProxyNamespace(i))
		if err != nil {
			return c, err
		}
		rounds, moves = append(rounds, r.Start()), append(moves, x)
	}
	b.turns["churn"]++
	var ready, stale [][]float64
	for i := range rounds {
		if err := b.waitFor(rounds[i].Done, "a new pod in sync"); err != nil {
			return c, err
		}
		if err := b.waitFor(moves[i].Done, "a moved endpoint at all proxies"); err != nil {
			return c, err
		}
		arrivals, _ := rounds[i].Arrivals()
		ready = append(ready, latencyValues(arrivals))
		arrivals, _ = moves[i].Arrivals()
		stale = append(stale, latencyValues(arrivals))
	}
	b.awaitQuiet()
	c.cpu, c.took = b.process.CPU()-cpu, time.Since(began)
	c.ready, c.stale = report.NewLatency(ready), report.NewLatency(stale)
	return c, nil
}
