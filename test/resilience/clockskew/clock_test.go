package clockskew

import (
	"sync"
	"testing"
	"time"
)

// simulation is a simulated time that the test advances.
type simulation struct {
	mu  sync.Mutex
	now time.Time
	// timers holds the timer that the agent waits for: it has one at a time.
	timers chan timer
}

type timer struct {
	until time.Time
	fire  chan time.Time
}

func newSimulation() *simulation {
	return &simulation{now: time.Now().Truncate(time.Second), timers: make(chan timer, 1)}
}

func (s *simulation) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *simulation) set(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = t
}

// clock is a clock with an offset.
type clock struct {
	*simulation
	offset time.Duration
}

// Now returns the simulated time plus the offset of the clock.
func (c clock) Now() time.Time { return c.time().Add(c.offset) }

// After replaces the timer of before: the agent waits for one at a time.
func (c clock) After(d time.Duration) <-chan time.Time {
	one := timer{until: c.time().Add(d), fire: make(chan time.Time, 1)}
	select {
	case <-c.timers:
	default:
	}
	c.timers <- one
	return one.fire
}

// run advances time until the end, in steps and from timer to timer. It calls observe at every
// step, and twice at the time of a timer: before it fires, and after the agent has handled it.
func (s *simulation) run(t *testing.T, end time.Time, step time.Duration, observe func(now time.Time)) {
	t.Helper()
	next := s.time().Add(step)
	for {
		var one timer
		select {
		case one = <-s.timers:
		case <-time.After(time.Minute):
			t.Fatal("the agent waits for nothing")
		}
		for ; next.Before(one.until) && next.Before(end); next = next.Add(step) {
			s.set(next)
			observe(next)
		}
		if !one.until.Before(end) {
			s.timers <- one
			return
		}
		s.set(one.until)
		observe(one.until)
		one.fire <- one.until
		s.settle(t)
		observe(one.until)
	}
}

// settle waits until the agent waits again.
func (s *simulation) settle(t *testing.T) {
	t.Helper()
	select {
	case one := <-s.timers:
		s.timers <- one
	case <-time.After(time.Minute):
		t.Fatal("the agent does not wait again")
	}
}
