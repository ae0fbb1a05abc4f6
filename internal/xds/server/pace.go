package server

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// pace is a fixed rate: a second's worth at once, the others in the order in which they come, at even distances.
type pace struct {
	clock    push.Clock
	interval time.Duration

	mu   sync.Mutex
	next time.Time // when the one after the last would be due at an even rate
}

// newPace makes a pace; nil for a rate of 0, which is none.
func newPace(perSecond float64, clock push.Clock) *pace {
	if perSecond <= 0 {
		return nil
	}
	return &pace{clock: clock, interval: time.Duration(float64(time.Second) / perSecond)}
}

// reserve gives how long to wait. It is not ok, and reserves nothing, if that is longer than the limit.
func (p *pace) reserve(limit time.Duration) (pause time.Duration, ok bool) {
	if p == nil {
		return 0, true
	}
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(now) {
		p.next = now
	}
	burst := max(time.Second, p.interval)
	pause = p.next.Add(p.interval).Sub(now) - burst
	if pause > limit {
		return 0, false
	}
	p.next = p.next.Add(p.interval)
	return pause, true
}
