package garbage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/testkit/long"
	"github.com/meshpilot/meshpilot/internal/testkit/scorecard"
	"github.com/meshpilot/meshpilot/internal/testkit/serving"
)

const (
	// slack is how many goroutines and open files there may be more than before: those of timers and kept connections.
	slack = 25
	// room is what a program may have grown by, in MiB. Go gives memory back slowly, and keeps for later what it had at a time.
	room = 200
	// patience bounds every wait.
	patience = 60 * time.Second
)

func duration(t *testing.T) time.Duration {
	text := os.Getenv("MESHPILOT_GARBAGE")
	if text == "" {
		return scorecard.BySize(4*time.Second, 3*time.Minute, 24*time.Hour)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MESHPILOT_GARBAGE: %v", err)
	}
	return d
}

func TestGarbage(t *testing.T) {
	check := scorecard.Check(t, 33, scorecard.Size("duration", duration(t)))
	long.Test(t)
	plane := startPlane(t)
	agent := startAgent(t, plane)
	programs := []*victim{plane, agent}
	for _, p := range programs {
		p.settle(t)
		p.before = p.measure(t)
	}
	closed(t, append(plane.doors, agent.doors...))
	length := duration(t)
	peaks := watch(t, length, programs)
	made := assault(t, length, append(plane.doors, agent.doors...))
	for i, p := range programs {
		p.working(t)
		serving.Eventually(t, patience, p.name+" has as many goroutines and open files as before", func() error {
			if now := p.measure(t); now.goroutines > p.before.goroutines+slack || now.files > p.before.files+slack {
				return fmt.Errorf("%d and %d open files, there were %d and %d", now.goroutines, now.files, p.before.goroutines, p.before.files)
			}
			return nil
		})
		after := p.measure(t)
		t.Logf("%s: %d MiB before, at most %d, %d after; goroutines %d, %d after; open files %d, %d after", p.name, p.before.memory, max(peaks[i][0].Load(), peaks[i][1].Load()), after.memory, p.before.goroutines, after.goroutines, p.before.files, after.files)
		check.Measured(p.name+" MiB before and after", fmt.Sprint(p.before.memory, " and ", after.memory))
		if after.memory > p.before.memory+room {
			t.Errorf("%s has %d MiB, %d before", p.name, after.memory, p.before.memory)
		}
		if first, second := peaks[i][0].Load(), peaks[i][1].Load(); length > time.Minute && second > first+first/4 {
			t.Errorf("%s grows: at most %d MiB in the first half, %d in the second", p.name, first, second)
		}
	}
	check.Measured("attacks", made)
	t.Logf("%d attacks in %v", made, length)
}

// assault does all attacks to all doors at once, again and again.
func assault(t *testing.T, length time.Duration, doors []door) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	var made atomic.Int64
	run := func(seed uint64, d door, a attack) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it is noise
			for ctx.Err() == nil {
				_ = a.do(ctx, r, d) // that it is cut off is how it should be
				made.Add(1)
				time.Sleep(5 * time.Millisecond) // not a wait: there is one machine for attackers and attacked
			}
		})
	}
	seed := uint64(0)
	for _, d := range doors {
		list := attacks()
		if d.network == "udp" {
			list = nil
		}
		if d.name == "DNS" {
			list = append(list, attack{"DNS of nonsense", dnsNonsense})
		}
		for _, a := range list {
			seed++
			run(seed, d, a)
		}
	}
	all.Wait()
	if made.Load() < int64(len(doors)) {
		t.Errorf("only %d attacks on %d ports", made.Load(), len(doors))
	}
	return made.Load()
}

// watch notes the most memory that programs have, in the first half and in the second.
func watch(t *testing.T, length time.Duration, programs []*victim) [][2]*atomic.Int64 {
	peaks := make([][2]*atomic.Int64, len(programs))
	for i, p := range programs {
		peaks[i] = [2]*atomic.Int64{new(atomic.Int64), new(atomic.Int64)}
		begin := time.Now()
		done := make(chan struct{})
		stop := make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(length / 20)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				half := peaks[i][min(int(2*time.Since(begin)/length), 1)]
				half.Store(max(half.Load(), p.resident()))
			}
		}()
		t.Cleanup(func() { close(stop); <-done })
	}
	return peaks
}
