package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/meshpilot/meshpilot/test/perf/target"
)

const (
	// maxWorkers bounds the requests in flight.
	maxWorkers = 500
	// requestTime bounds a request.
	requestTime = 10 * time.Second
	// warmTime is the duration of the load before a measurement, which opens connections.
	warmTime = time.Second
)

// Load is what requests through a pair of sidecars cost.
type Load struct {
	Variant  Variant
	Protocol Protocol
	Rate     int
	// P50 to P999 are percentiles of the latency since the time at which a request was due.
	P50, P90, P99, P999 time.Duration
	// ClientCPU and ServerCPU are the CPU times of both Envoys for one request.
	ClientCPU, ServerCPU time.Duration
	// Requests were sent, and Failed of them had no or another answer.
	Requests, Failed int
	// Other is the number of CPUs that other programs kept busy.
	Other float64
}

// String returns the result in one line.
func (l Load) String() string {
	return fmt.Sprintf("%s, %s at %d/s: p50 %v, p99 %v, CPU %v and %v, %d of %d failed, %.2f CPUs in use by others",
		l.Variant.name(), l.Protocol, l.Rate, l.P50.Round(time.Microsecond), l.P99.Round(time.Microsecond),
		l.ClientCPU.Round(100*time.Nanosecond), l.ServerCPU.Round(100*time.Nanosecond), l.Failed, l.Requests, l.Other)
}

// measureLoad sends requests through a pair at a constant rate, whatever the answers do.
func (o Options) measureLoad(ctx context.Context, p *pair, protocol Protocol, rate int) (Load, error) {
	client := protocol.newTransport(p.client.node)
	defer client.CloseIdleConnections()
	if _, failure := attack(ctx, client, protocol, rate, warmTime); failure != "" {
		return Load{}, fmt.Errorf("%s, %s: %s", p.plane.variant.name(), protocol, failure)
	}
	l := Load{Variant: p.plane.variant, Protocol: protocol, Rate: rate}
	pids := []int{p.client.process.PID(), p.server.process.PID(), os.Getpid()}
	before, machine, began := cpuOf(pids), target.MachineCPU(), time.Now()
	results, failure := attack(ctx, client, protocol, rate, o.Duration)
	spent, elapsed := cpuOf(pids), time.Since(began)
	busy := target.MachineCPU() - machine
	for i := range spent {
		spent[i] -= before[i]
		busy -= spent[i]
	}
	if failure != "" {
		fmt.Fprintf(o.Progress, "%s, %s: a request failed: %s\n", p.plane.variant.name(), protocol, failure)
	}
	l.Requests, l.Other = len(results), max(0, busy.Seconds()/elapsed.Seconds())
	if l.Requests == 0 {
		return l, fmt.Errorf("%s, %s: no request was sent", p.plane.variant.name(), protocol)
	}
	l.ClientCPU, l.ServerCPU = spent[0]/time.Duration(l.Requests), spent[1]/time.Duration(l.Requests)
	l.addLatencies(results)
	return l, ctx.Err()
}

func cpuOf(pids []int) []time.Duration {
	var list []time.Duration
	for _, pid := range pids {
		list = append(list, target.CPUOf(pid))
	}
	return list
}

// attack sends requests for a time, and returns the results and the first failure.
func attack(
	ctx context.Context, client http.RoundTripper, protocol Protocol, rate int, d time.Duration,
) (results []vegeta.Result, failure string) {
	a := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: client, Timeout: requestTime}), vegeta.MaxWorkers(maxWorkers))
	defer context.AfterFunc(ctx, func() { a.Stop() })()
	pace := vegeta.Rate{Freq: rate, Per: time.Second}
	for r := range a.Attack(vegeta.NewStaticTargeter(protocol.target()), pace, d, "") {
		if r.Error != "" && failure == "" {
			failure = r.Error
		}
		r.Body = nil
		results = append(results, *r)
	}
	return results, failure
}

// addLatencies adds the percentiles. The latency of a request is counted from the time at which it was due,
// not from when it was sent: a client that is late would otherwise omit the wait that it has caused
// or suffered (coordinated omission).
func (l *Load) addLatencies(results []vegeta.Result) {
	interval := time.Second / time.Duration(l.Rate)
	due := func(r vegeta.Result) time.Duration { return time.Duration(r.Seq) * interval }
	began := results[0].Timestamp.Add(-due(results[0]))
	for _, r := range results { // the request that was least late defines the schedule
		if b := r.Timestamp.Add(-due(r)); b.Before(began) {
			began = b
		}
	}
	var latencies []time.Duration
	for _, r := range results {
		if r.Error != "" {
			l.Failed++
			continue
		}
		latencies = append(latencies, r.Timestamp.Add(r.Latency).Sub(began.Add(due(r))))
	}
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	for q, p := range map[float64]*time.Duration{0.5: &l.P50, 0.9: &l.P90, 0.99: &l.P99, 0.999: &l.P999} {
		*p = latencies[min(len(latencies)-1, int(q*float64(len(latencies))))]
	}
}
