package controlplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// shared is a mesh in which every proxy sees every service.
func shared(services, endpoints, routes, namespaces int) workload.Params {
	return workload.Params{
		Services: services, Endpoints: endpoints, Routes: routes, Namespaces: namespaces, Scope: workload.Everything,
	}
}

// TestSteadyLoad keeps simulated proxies and a real gateway Envoy connected while configuration
// changes at a steady rate. It checks memory, goroutines and open files by regression over the
// second half of the run.
func TestSteadyLoad(t *testing.T) {
	proxies, services := scorecard.BySize(100, 1000, 5000), scorecard.BySize(100, 500, 1000)
	soak := scenario.Soak{
		Duration:         scorecard.BySize(12*time.Second, 8*time.Minute, 24*time.Hour),
		ChangesPerMinute: scorecard.BySize(300, 100, 100),
		Sample:           scorecard.BySize(500*time.Millisecond, 15*time.Second, 2*time.Minute),
	}
	check := scorecard.Check(t, 1, scorecard.Size("simulated proxies", proxies), scorecard.Size("real Envoys", 1),
		scorecard.Size("services", services), scorecard.Size("changes per minute", soak.ChangesPerMinute),
		scorecard.Size("duration", soak.Duration))
	longtest.Test(t)
	o := options(t)
	o.BasePort = basePort(t, 5)
	envoy := startGateway(t, fmt.Sprintf("127.0.0.1:%d", o.BasePort))
	row := play(t, o, shared(services, 5, 4, 20), proxies,
		scenario.Connect(), scenario.Steady(soak), scenario.Verify())["steady load"]

	check.Measured("changes", row.Events)
	check.Measured("push p99", milliseconds(row.Latency.P99))
	check.Measured("streams ended", int(row.Values["streams_ended"]))
	for _, name := range []string{"heap", "rss", "goroutines", "files"} {
		check.Measured(name+" drift in percent", fmt.Sprintf("%.1f", row.Values[name+"_drift"]))
	}
	check.Measured("MiB of memory at the end", mebibytes(int64(row.Values["rss_last"])))
	updates := envoy.stat(t, "cluster_manager.cds.update_success")
	rejected := envoy.stat(t, "cluster_manager.cds.update_rejected")
	check.Measured("updates of clusters at the real Envoy", updates)
	// In a few seconds memory does not settle, so the growth of a leak in a day cannot be measured.
	tolerated := scorecard.BySize(40.0, 3.0, 2.0)
	if heap := row.Values["heap_drift"]; heap > tolerated {
		t.Errorf("the live heap grew by %.1f %% in the second half, want at most %v %%", heap, tolerated)
	}
	if g, f := row.Values["goroutines_drift"], row.Values["files_drift"]; g > tolerated || f > tolerated {
		t.Errorf("goroutines grew by %.1f %%, files by %.1f %%", g, f)
	}
	if rss := row.Values["rss_drift"]; rss > scorecard.BySize(40.0, 10.0, 2.0) {
		t.Errorf("resident memory grew by %.1f %% in the second half", rss)
	}
	if row.Values["streams_ended"] > 0 || row.Events == 0 {
		t.Errorf("%d changes, %.0f streams ended", row.Events, row.Values["streams_ended"])
	}
	if limit := scorecard.BySize(5*time.Second, time.Second, time.Second); milliseconds(row.Latency.P99) > limit {
		t.Errorf("push p99 is %v, want at most %v", milliseconds(row.Latency.P99), limit)
	}
	if updates == 0 || rejected > 0 {
		t.Errorf("the real Envoy accepted %d updates of clusters and rejected %d", updates, rejected)
	}
}

// TestStreamCapacity connects ever more proxies until a change takes more than a second to 99 in
// 100 of them, or memory exceeds 4 GB.
func TestStreamCapacity(t *testing.T) {
	most := scorecard.BySize(400, 6000, 40_000)
	ramp := scenario.Ramp{
		First:  scorecard.BySize(200, 1000, 1000),
		P99:    scorecard.BySize(5*time.Second, time.Second, time.Second),
		Memory: 4 << 30,
	}
	check := scorecard.Check(t, 2, scorecard.Size("streams at most", most), scorecard.Size("services", 200))
	longtest.Test(t)
	o := options(t)
	o.Patience = 30 * time.Second
	row := play(t, o, shared(200, 2, 2, 10), most, scenario.Streams(ramp))["streams"]
	check.Measured("streams held", int(row.Values["streams"]))
	check.Measured("push p99 with them", milliseconds(row.Values["p99_ms"]))
	check.Measured("MiB of memory", int(row.Values["rss_mib"]))
	for _, reason := range []string{"latency", "memory"} {
		if row.Values["stopped_by_"+reason] > 0 {
			check.Measured("stopped by", reason)
		}
	}
	if held := int(row.Values["streams"]); held < ramp.First {
		t.Errorf("%d streams are held, want at least %d", held, ramp.First)
	}
}

// TestColdHerd connects all proxies at once to a control plane that has just started.
func TestColdHerd(t *testing.T) {
	proxies := scorecard.BySize(300, 3000, 10_000)
	check := scorecard.Check(t, 3, scorecard.Size("clients", proxies), scorecard.Size("services", 200))
	longtest.Test(t)
	row := play(t, options(t), shared(200, 2, 2, 10), proxies,
		scenario.Connect())["connect"]
	check.Measured("configured", row.Latency.N)
	check.Measured("last configured after", milliseconds(row.Latency.Max))
	check.Measured("CPU seconds of the control plane", row.Usage.CPU)
	check.Measured("peak MiB of memory", mebibytes(row.PeakRSS))
	if row.Missing > 0 || milliseconds(row.Latency.Max) > 20*time.Second {
		t.Errorf("%d proxies are not configured, the last one after %v", row.Missing, milliseconds(row.Latency.Max))
	}
}

// TestNoOpPushes makes edits that change nothing a proxy can see, and restarts the control plane:
// proxies that speak delta and have everything are sent nothing.
func TestNoOpPushes(t *testing.T) {
	proxies := scorecard.BySize(100, 1000, 1000)
	check := scorecard.Check(t, 7, scorecard.Size("simulated proxies", proxies),
		scorecard.Size("edits without effect", 150), scorecard.Size("restarts", 1))
	longtest.Test(t)
	quiet := []workload.Change{workload.Rewrite, workload.MetadataEdit, workload.StatusEdit}
	list := []scenario.Scenario{scenario.Connect()}
	for _, c := range quiet {
		list = append(list, scenario.QuietEdits(c))
	}
	rows := play(t, options(t), shared(100, 3, 4, 10), proxies,
		append(list, scenario.Restart(), scenario.Verify())...)
	sent := int64(0)
	for _, c := range quiet {
		row := rows[string(c)]
		for _, traffic := range row.Usage.Types {
			sent += traffic.Resources + traffic.Removed
		}
	}
	again := int64(0)
	for _, traffic := range rows["restart"].Usage.Types {
		again += traffic.Resources + traffic.Removed
	}
	check.Measured("resources sent for edits without effect", sent)
	check.Measured("resources sent after a restart", again)
	check.Measured("resources sent at first", total(rows["connect"].Usage.Types))
	if again > 0 {
		t.Errorf("%d resources were sent after a restart, though nothing changed", again)
	}
}

// TestEndpointChurn changes endpoints at a steady rate.
func TestEndpointChurn(t *testing.T) {
	proxies, rate := scorecard.BySize(50, 200, 1000), scorecard.BySize(100, 200, 1000)
	seconds := scorecard.BySize(5, 60, 3600)
	check := scorecard.Check(t, 11, scorecard.Size("proxies", proxies), scorecard.Size("changes per second", rate),
		scorecard.Size("seconds", seconds))
	longtest.Test(t)
	o := options(t)
	o.FilePerObject = true
	row := play(t, o, shared(100, 3, 2, 5), proxies,
		scenario.Connect(), scenario.Churn(rate, seconds), scenario.Verify())["churn"]
	check.Measured("changes", row.Events)
	check.Measured("made per second", int(float64(row.Events)/row.Values["made_in_s"]))
	check.Measured("EDS p99", milliseconds(row.Latency.P99))
	check.Measured("other resources sent",
		total(row.Usage.Types)-row.Usage.Types["EDS"].Resources-row.Usage.Types["EDS"].Removed)
	if row.Missing > 0 || milliseconds(row.Latency.P99) > 2*time.Second {
		t.Errorf("%d deliveries missing, EDS p99 %v", row.Missing, milliseconds(row.Latency.P99))
	}
}

// TestSlowClients compares the latency of other proxies without and with clients that are blocked
// or slow.
func TestSlowClients(t *testing.T) {
	blocked, others := scorecard.BySize(20, 250, 500), scorecard.BySize(60, 250, 1000)
	check := scorecard.Check(t, 21, scorecard.Size("blocked", blocked), scorecard.Size("slow", blocked),
		scorecard.Size("others", others))
	longtest.Test(t)
	row := play(t, options(t), shared(100, 3, 2, 5), 2*blocked+others,
		scenario.Connect(), scenario.SlowClients(blocked, blocked, scorecard.BySize(1, 6, 20)))["slow clients"]
	without, with := row.Values["p99_without_ms"], row.Values["p99_with_ms"]
	check.Measured("p99 without", milliseconds(without))
	check.Measured("p99 with", milliseconds(with))
	check.Measured("median without", milliseconds(row.Values["median_without_ms"]))
	check.Measured("median with", milliseconds(row.Values["median_with_ms"]))
	// The 99th percentile of a few changes is that of the slowest one, which on a shared machine
	// may be any.
	noise := scorecard.BySize(500.0, 50.0, 20.0)
	if with > without*1.1+noise || row.Missing > 0 {
		t.Errorf("p99 is %v without and %v with blocked and slow clients; %d deliveries missing",
			milliseconds(without), milliseconds(with), row.Missing)
	}
}

// TestConnectStorms connects and disconnects all proxies many times and compares the memory,
// goroutines and files of the process before and after.
func TestConnectStorms(t *testing.T) {
	proxies, rounds := scorecard.BySize(100, 1000, 10_000), scorecard.BySize(10, 40, 100)
	check := scorecard.Check(t, 30, scorecard.Size("proxies", proxies), scorecard.Size("storms", rounds))
	longtest.Test(t)
	row := play(t, options(t), workload.Params{Services: 20, Endpoints: 1, Routes: 1, Namespaces: 2}, proxies,
		scenario.ComeAndGo(rounds))["come and go"]
	check.Measured("streams", rounds*proxies)
	check.Measured("goroutines left", int(row.Values["goroutines_left"]))
	check.Measured("files left", int(row.Values["files_left"]))
	check.Measured("KiB of heap left", int(row.Values["heap_left_kib"]))
	if row.Memory != nil {
		check.Measured("KiB of heap", row.Memory.Heap>>10)
	}
}
