package scenario

import (
	"fmt"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

// closedPerSecond is how many connections each of the other control planes closes per second at
// first, while one has come back: as many as rebalancing allows.
const closedPerSecond = 10

// bringReplicaBack restarts all control planes but the last with rebalancing, connects the proxies,
// starts the last one, and measures until it has half of an even share. The CPU time is that of all.
// It does nothing for istiod, which has no such setting.
func bringReplicaBack(b *bench, row *report.Row) error {
	if b.Plane.Kind != target.Meshpilot {
		return nil
	}
	last := b.others[len(b.others)-1]
	if err := b.restartOthers(last); err != nil {
		return err
	}
	var err error
	if last.process, err = b.Plane.Start(b.ctx, last.settings, b.log); err != nil {
		return err
	}
	p := b.beginMeasurement()
	err = b.awaitHalfShare(row, newCPUMeter(b.running()), newCPUMeter([]*target.Process{last.process}))
	b.endMeasurement(p, row)
	b.recordSpread(row)
	return err
}

// restartOthers stops all control planes, starts all but the last with rebalancing, and reconnects
// the proxies with their state.
func (b *bench) restartOthers(last *replica) error {
	share := float64(closedPerSecond) * 3600 * float64(len(b.others)) / float64(b.proxies)
	environment := append(b.Environment[:len(b.Environment):len(b.Environment)],
		fmt.Sprintf("MESHPILOT_REBALANCE_PER_HOUR=%g", share))
	b.fleet.DisconnectProxies(fleet.IndexRange(0, b.proxies+spares), false)
	for _, x := range b.running() {
		x.Stop(syscall.SIGTERM)
	}
	b.settings.Environment = environment
	var err error
	if b.process, err = b.Plane.Start(b.ctx, b.settings, b.log); err != nil {
		return err
	}
	for _, r := range b.others {
		r.settings.Environment = environment
		if r == last {
			continue
		}
		if r.process, err = b.Plane.Start(b.ctx, r.settings, b.log); err != nil {
			return err
		}
	}
	return b.connectGroups(false)
}

// awaitHalfShare waits until the last control plane has half of an even share of the proxies.
// Meanwhile it records how many were connected again in one second, how many were without a control
// plane at once, and the CPU time.
func (b *bench) awaitHalfShare(row *report.Row, all, last *cpuMeter) error {
	half := b.proxies / b.group.Replicas / 2
	began, moved, busiest, unserved := time.Now(), 0, 0, 0
	for moved < half && time.Since(began) < b.Patience && b.ctx.Err() == nil {
		b.pauseFor(meterInterval)
		all.read()
		last.read()
		moved = 0
		recent, without := 0, 0
		for _, a := range b.fleet.Assignments()[:b.proxies] {
			switch {
			case a == nil:
				without++
				continue
			case a.Since.After(began) && time.Since(a.Since) < time.Second:
				recent++
			}
			if a.Address == len(b.others) {
				moved++
			}
		}
		busiest, unserved = max(busiest, recent), max(unserved, without)
	}
	row.Values["half_share_s"] = time.Since(began).Seconds()
	row.Values["reconnected_in_busiest_second"], row.Values["unserved_at_once"] = float64(busiest), float64(unserved)
	row.Values["cpus_in_busiest_second"] = all.busiestSecond()
	row.Values["its_cpus_in_busiest_second"] = last.busiestSecond()
	if moved < half {
		return fmt.Errorf("the control plane that came back has %d proxies after %v, want %d", moved, b.Patience, half)
	}
	return b.ctx.Err()
}
