package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

// Scenarios of groups with several control planes. The last one is the one that ends and comes back.

// envoyMaxBackoff is Envoy's longest interval between streams that fail.
const envoyMaxBackoff = 30 * time.Second

// replica is one of the control planes beside the first.
type replica struct {
	settings target.Settings
	process  *target.Process
}

// replicaScenarios are a start, and the end of a control plane in two ways and its return.
func replicaScenarios() []Scenario {
	return []Scenario{
		{"connect", 1, connectInGroups},
		{"replica killed", 17, endReplica(syscall.SIGKILL)},
		{"replica stopped", 17, endReplica(syscall.SIGTERM)},
		{"verify", 0, verifyNewcomers},
		{"replica back", 17, bringReplicaBack},
	}
}

// startOthers starts the control planes beside the first, which have the same configuration.
func (b *bench) startOthers() error {
	for i := 1; i < b.group.Replicas; i++ {
		s, err := b.settingsOfReplica(i)
		if err != nil {
			return err
		}
		r := &replica{settings: s}
		if r.process, err = b.Plane.Start(b.ctx, s, b.log); err != nil {
			return fmt.Errorf("%w; the end of its output:\n%s", err, b.lastOutput())
		}
		b.others = append(b.others, r)
	}
	return nil
}

// running returns the processes that have not ended.
func (b *bench) running() []*target.Process {
	list := []*target.Process{b.process}
	for _, r := range b.others {
		if r.process.Alive() {
			list = append(list, r.process)
		}
	}
	return list
}

// endReplica sends a signal to the last control plane, and measures until its proxies are served by
// the others. Then it starts it again and reconnects all proxies, so that they are spread again. The
// CPU time is that of the others.
func endReplica(signal syscall.Signal) func(*bench, *report.Row) error {
	return func(b *bench, row *report.Row) error {
		b.awaitQuiet()
		last := b.others[len(b.others)-1]
		moving := b.proxiesAt(len(b.others))
		row.Values["moved_proxies"] = float64(len(moving))
		others := b.running()[:len(b.others)]
		p, meter, ended := b.beginMeasuring(others), newCPUMeter(others), make(chan struct{})
		began := time.Now()
		go func() { last.process.Stop(signal); close(ended) }()
		err := b.awaitServed(row, moving, began, meter)
		row.Values["cpu_s_until_served"], row.Values["cpus_in_busiest_second"] = meter.total(), meter.busiestSecond()
		b.recordSpread(row)
		<-ended
		b.awaitQuiet()
		b.endMeasurement(p, row)
		if err == nil {
			err = b.spreadProxies(last)
		}
		return err
	}
}

// proxiesAt returns the proxies that the i-th control plane serves.
func (b *bench) proxiesAt(i int) []int {
	var list []int
	for proxy, a := range b.fleet.Assignments() {
		if a != nil && a.Address == i {
			list = append(list, proxy)
		}
	}
	return list
}

// awaitServed waits until the proxies were served again since a moment, and for the first second at
// least. It sets the latencies of the row and the number of missing proxies.
func (b *bench) awaitServed(row *report.Row, proxies []int, since time.Time, meter *cpuMeter) error {
	var times []float64
	for time.Since(since) < b.Patience {
		b.pauseFor(meterInterval)
		meter.read()
		times = times[:0]
		now := b.fleet.Assignments()
		for _, i := range proxies {
			if now[i] != nil && now[i].Since.After(since) {
				times = append(times, milliseconds(now[i].Since.Sub(since)))
			}
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if len(times) == len(proxies) && time.Since(since) > time.Second {
			break
		}
	}
	row.Latency, row.Missing = report.NewLatency([][]float64{times}), len(proxies)-len(times)
	if row.Missing > 0 {
		return fmt.Errorf("%d of %d proxies are not served within %v", row.Missing, len(proxies), b.Patience)
	}
	return nil
}

// spreadProxies starts a control plane that ended, and reconnects all proxies with their state.
func (b *bench) spreadProxies(r *replica) error {
	var err error
	if r.process, err = b.Plane.Start(b.ctx, r.settings, b.log); err != nil {
		return err
	}
	err = b.connectGroups(false)
	b.awaitQuiet()
	return err
}

// connectInGroups connects all proxies as new pods, some at a time.
func connectInGroups(b *bench, row *report.Row) error {
	b.awaitQuiet() // with starting
	p := b.beginMeasurement()
	err := b.connectGroups(true)
	b.awaitQuiet()
	b.endMeasurement(p, row)
	b.recordSpread(row)
	return err
}

// connectedAtOnce is how many proxies connectGroups connects at the same time. The fleet needs
// several MiB for each of them until it is in sync.
const connectedAtOnce = 200

// connectGroups disconnects the proxies and connects them again, group after group. They are fresh,
// like new pods, or have their state.
func (b *bench) connectGroups(fresh bool) error {
	for first := 0; first < b.proxies; first += connectedAtOnce {
		group := fleet.IndexRange(first, min(first+connectedAtOnce, b.proxies))
		if err := b.waitFor(b.fleet.DisconnectProxies(group, fresh).Start().Done, "proxies in sync"); err != nil {
			return err
		}
	}
	return nil
}

// recordSpread records the smallest and the largest number of proxies of a control plane that runs.
func (b *bench) recordSpread(row *report.Row) {
	fewest, most := b.proxies, 0
	for i := range b.others {
		if !b.others[i].process.Alive() {
			continue
		}
		n := len(b.proxiesAt(i + 1))
		fewest, most = min(fewest, n), max(most, n)
	}
	n := len(b.proxiesAt(0))
	row.Values["fewest_proxies"], row.Values["most_proxies"] = float64(min(fewest, n)), float64(max(most, n))
}

// allSettings returns the settings of all control planes of the group.
func (b *bench) allSettings() []target.Settings {
	list := []target.Settings{b.settings}
	for _, r := range b.others {
		list = append(list, r.settings)
	}
	return list
}

// settingsOfReplica returns the settings of the first control plane with other addresses, and makes a
// directory for the files of the i-th.
func (b *bench) settingsOfReplica(i int) (target.Settings, error) {
	s := b.settings
	addresses, err := b.choosePorts(i)
	if err != nil {
		return s, err
	}
	s.XDS, s.SecureXDS, s.HTTP, s.Monitoring = addresses[0], addresses[1], addresses[2], addresses[3]
	s.Dir = filepath.Join(s.Dir, fmt.Sprintf("replica-%d", i))
	return s, os.Mkdir(s.Dir, 0o755)
}
