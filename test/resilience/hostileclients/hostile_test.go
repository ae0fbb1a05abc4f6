package hostileclients

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestHostileClients runs every attack of the table while honest clients are measured.
func TestHostileClients(t *testing.T) {
	longtest.Test(t)
	list := rows()
	check := scorecard.Check(t, 33, scorecard.Size("attacks", len(list)), scorecard.Size("time", attackTime()))
	s := startScene(t)
	s.settle(t, s.probes())
	first, processes := map[*victim]usage{}, map[*victim]int{}
	for _, v := range []*victim{s.plane, s.agent} {
		first[v], processes[v] = v.measure(), v.process.PID()
	}
	table := newReport(t, s)
	t.Run("no attack", func(t *testing.T) { table.add(s.measureAttack(t, nil, 2*time.Second)) })
	t.Run("protocols", func(t *testing.T) { checkProtocols(t, slices.Concat(s.plane.doors, s.agent.doors)) })
	for _, x := range list {
		t.Run(x.name, func(t *testing.T) {
			if *fresh || s.plane.hasExited() {
				s.restart(t)
				s.settle(t, s.probes())
			}
			table.add(s.measureAttack(t, &x, lengthOf(x, list)))
			if t.Failed() && !*fresh { // the next attack must not be blamed for this one
				s.restart(t)
				s.settle(t, s.probes())
			}
		})
	}
	table.record(check)
	s.checkDrift(t, first, processes)
}

// lengthOf returns how long an attack takes: its share of the time of all.
func lengthOf(x row, all []row) time.Duration {
	if *each > 0 {
		return *each
	}
	shares := 0
	for _, y := range all {
		shares += max(y.share, 1)
	}
	return attackTime() * time.Duration(max(x.share, 1)) / time.Duration(shares)
}

// checkDrift compares the resources of each victim after all attacks with those before the first.
func (s *scene) checkDrift(t *testing.T, first map[*victim]usage, processes map[*victim]int) {
	t.Helper()
	for v, before := range first {
		now := v.measure()
		t.Logf("%s: before all attacks %s; after them %s", v.name, before, now)
		if v.process.PID() != processes[v] {
			continue
		}
		if err := recovered(before, now); err != nil {
			t.Errorf("%s grows with the number of attacks: %v", v.name, err)
		}
	}
}

// result is the effect of an attack.
type result struct {
	name    string
	row     *row // nil: there was no attack
	length  time.Duration
	outcome outcome
	honest  []latencies
	// allowance is the delay of honest clients that the load of the machine explains.
	allowance time.Duration
	// slowdown is the factor by which other processes of the machine extended computations.
	slowdown float64
	// peak is the maximum memory during the attack, by victim.
	before, after map[*victim]usage
	peak          map[*victim]int64
	// recovery is the time until the victims returned to their previous state; 0 if they did not
	// within the bound.
	recovery time.Duration
	stopped  bool // because of the victim's memory
	failures []string
}

// attackerStart is the maximum time until the attacker's process has started.
const attackerStart = 20 * time.Second

// measureAttack runs an attack and honest clients, and checks the bounds of the victims.
func (s *scene) measureAttack(t *testing.T, x *row, length time.Duration) *result {
	t.Helper()
	victims := []*victim{s.plane, s.agent}
	r := &result{name: "no attack", row: x, length: length, before: map[*victim]usage{},
		after: map[*victim]usage{}, peak: map[*victim]int64{}}
	fail := func(format string, args ...any) {
		t.Helper()
		text := fmt.Sprintf(format, args...)
		r.failures = append(r.failures, text)
		t.Error(text)
	}
	for _, v := range victims {
		r.before[v] = v.measure()
	}
	streams := s.subscriber.streams()
	var a *attack
	exceeded := make(chan struct{}, 1)
	var peaks []*peak
	for _, v := range victims {
		peaks = append(peaks, watchPeak(v, func() {
			select {
			case exceeded <- struct{}{}:
			default:
			}
		}))
	}
	if x != nil {
		r.name = x.name
		a = startAttack(t, s.order(x, length))
		select {
		case <-a.out.begun:
		case <-time.After(attackerStart):
			fail("the attacker does not start")
		}
	}
	probes := s.probesOf(x)
	honest, load := runHonestClients(t, probes), watchMachineLoad()
	select {
	case <-time.After(length):
	case <-exceeded:
		r.stopped = true
	}
	if a != nil {
		_ = a.stop.Close()
		var err error
		if r.outcome, err = a.wait(15 * time.Second); err != nil {
			t.Log(err)
		}
	}
	if len(r.outcome.Errors) > 0 {
		t.Logf("answers to the attacker: %v", r.outcome.Errors)
	}
	ended := time.Now()
	r.honest = honest.stop(probes)
	r.allowance, r.slowdown = honest.allowance(), load.stop()
	s.awaitRecovery(r, victims, ended)
	for i, v := range victims {
		r.peak[v] = peaks[i].stop()
	}
	s.judge(r, fail)
	if n := s.subscriber.streams() - streams; n > 0 {
		fail("the stream of an honest proxy ended %d times", n)
	}
	return r
}

// awaitRecovery waits, for a limited time, until the victims use as many resources as before.
func (s *scene) awaitRecovery(r *result, victims []*victim, ended time.Time) {
	for {
		good := true
		for _, v := range victims {
			r.after[v] = v.measure()
			good = good && recovered(r.before[v], r.after[v]) == nil
		}
		switch took := time.Since(ended); {
		case good:
			r.recovery = max(took, time.Millisecond)
			return
		case took > recovery, s.plane.hasExited(), s.agent.hasExited():
			return
		}
		pause(s.t.Context(), 250*time.Millisecond)
	}
}

// judge holds a result to the bounds.
func (s *scene) judge(r *result, fail func(format string, args ...any)) {
	x := r.row
	if x == nil {
		x = new(row)
	}
	for _, l := range r.honest {
		if err := l.check(r.allowance, r.slowdown); err != nil {
			fail("%v", err)
		}
	}
	for _, v := range []*victim{s.plane, s.agent} {
		if v.hasExited() {
			fail("%s ended: %s", v.name, v.process.Exit())
			continue
		}
		before, after := r.before[v], r.after[v]
		if bound := atLeast(x.memory, growth); r.peak[v] > before.resident+bound {
			fail("%s grew from %d to %d MiB, the bound is %d more", v.name, before.resident, r.peak[v], bound)
		}
		if err := recovered(before, after); err != nil {
			fail("%s, %v after the attack: %v", v.name, recovery, err)
		}
		bound := atLeast(x.log, logGrowth) + atLeast(x.logRate, logRate)*int64(r.length/time.Millisecond)/1000
		if grown := (after.log - before.log) >> 10; grown > bound {
			fail("the log of %s grew by %d KiB, the bound is %d", v.name, grown, bound)
		}
	}
	if r.row == nil {
		return
	}
	if r.stopped {
		fail("the attack was ended early: a victim had more than %d MiB", stopAttack)
	}
	reached := x.reached
	if reached == nil {
		reached = func(o outcome) error {
			if o.Made == 0 {
				return fmt.Errorf("there was no attack")
			}
			return nil
		}
	}
	if err := reached(r.outcome); err != nil && !r.stopped {
		fail("%v", err)
	}
	if x.check != nil && !s.plane.hasExited() {
		if err := x.check(s, r); err != nil {
			fail("%v", err)
		}
	}
}

func atLeast(bound, usual int64) int64 {
	if bound > 0 {
		return bound
	}
	return usual
}

// order returns the attacker's task for a row.
func (s *scene) order(x *row, length time.Duration) order {
	o := order{
		Attack: x.name, Sources: x.from.addresses(), Length: length, Workers: x.workers, Pause: x.pause,
		Seed: 1, Namespace: honestNamespace,
		Domain: x.domain,
	}
	for _, account := range x.identities {
		o.Identities = append(o.Identities, s.identities[account])
	}
	if o.Domain == "" {
		o.Domain = honestDomain
	}
	for _, d := range slices.Concat(s.plane.doors, s.agent.doors) {
		if x.doors(d) {
			o.Doors = append(o.Doors, d)
		}
	}
	return o
}

// probesOf returns the probes of the programs that a row attacks.
func (s *scene) probesOf(x *row) []probe {
	if x == nil {
		return s.probes()
	}
	return slices.DeleteFunc(s.probes(), func(p probe) bool {
		v := s.plane
		if p.victim == s.agent.name {
			v = s.agent
		}
		return !slices.ContainsFunc(v.doors, x.doors)
	})
}
