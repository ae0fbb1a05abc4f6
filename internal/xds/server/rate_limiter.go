package server

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
)

// rateLimiter is a rate limiter with a burst of one second's worth. Further callers are spaced
// evenly, in the order of their calls.
type rateLimiter struct {
	clock    clock.Clock
	interval time.Duration

	mu   sync.Mutex
	next time.Time // when the next call would be due at an even rate
}

// newRateLimiter returns a rate limiter for perSecond calls a second, with bursts of one second. If
// perSecond is not positive, it returns nil, which means no limit.
func newRateLimiter(perSecond float64, c clock.Clock) *rateLimiter {
	if perSecond <= 0 {
		return nil
	}
	return &rateLimiter{clock: c, interval: time.Duration(float64(time.Second) / perSecond)}
}

// reserve reserves the next call and returns how long the caller must wait before it; zero or less
// means not at all. After a pause, the calls of one second, at least one, need no wait. If the wait
// is longer than limit, ok is false and nothing is reserved. A nil rateLimiter never waits.
func (p *rateLimiter) reserve(limit time.Duration) (pause time.Duration, ok bool) {
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
