package scenario

import (
	"syscall"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
)

// connectAll brings all proxies in at once, as new pods.
func connectAll(b *bench, row *report.Row) error {
	b.awaitQuiet() // with starting
	return b.bringIn(b.fleet.DisconnectProxies(fleet.IndexRange(0, b.proxies), true), row)
}

// reconnectAll drops all connections at once. The proxies reconnect with their state.
func reconnectAll(b *bench, row *report.Row) error {
	return b.bringIn(b.fleet.DisconnectProxies(fleet.IndexRange(0, b.proxies), false), row)
}

// restartProcess replaces the process. The proxies reconnect with their state as soon as its port
// is open.
func restartProcess(b *bench, row *report.Row) error {
	r := b.fleet.DisconnectProxies(fleet.IndexRange(0, b.proxies), false)
	b.process.Stop(syscall.SIGTERM)
	p, err := b.Plane.Start(b.ctx, b.settings, b.log)
	if err != nil {
		return err
	}
	b.process = p
	row.Values["start_ms"], row.Values["start_cpu_s"] = milliseconds(p.Started), p.StartCPU.Seconds()
	return b.bringIn(r, row)
}

// bringIn starts a round and measures until all is quiet.
func (b *bench) bringIn(r *fleet.Round, row *report.Row) error {
	p := b.beginMeasurement()
	r.Start()
	err := b.waitFor(r.Done, "all proxies in sync")
	b.awaitQuiet()
	b.endMeasurement(p, row)
	list, missing := r.Arrivals()
	row.Latency, row.Missing = report.NewLatency([][]float64{latencyValues(list)}), missing
	m := b.process.Memory(true)
	row.Memory = &m
	eds, rds := b.fleet.SubscribedNames(0)
	row.Values["eds_names"], row.Values["rds_names"] = float64(eds), float64(rds)
	return err
}
