package ca

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// identityLimiter limits the rate of certificates per identity, so that one faulty workload cannot
// exhaust the signer for the others.
type identityLimiter struct {
	rate  rate.Limit
	burst int
	now   func() time.Time

	mu       sync.Mutex
	limiters map[spiffe.ID]*rate.Limiter
}

// maxTrackedIdentities bounds the limiters that are kept. At the bound, evict removes limiters.
const maxTrackedIdentities = 20_000

// newIdentityLimiter returns a limiter of perSecond certificates a second for each identity, with
// bursts of burst. now is its clock.
func newIdentityLimiter(perSecond float64, burst int, now func() time.Time) *identityLimiter {
	return &identityLimiter{
		rate:     rate.Limit(perSecond),
		burst:    burst,
		now:      now,
		limiters: map[spiffe.ID]*rate.Limiter{},
	}
}

// Allow reports whether id may have one more certificate now, and if so takes one token from its
// bucket. It creates the bucket of an identity that has none, and evicts others if
// maxTrackedIdentities is reached.
func (t *identityLimiter) Allow(id spiffe.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	l := t.limiters[id]
	if l == nil {
		if len(t.limiters) >= maxTrackedIdentities {
			t.evict(now)
		}
		l = rate.NewLimiter(t.rate, t.burst)
		t.limiters[id] = l
	}
	return l.AllowN(now, 1)
}

// evict removes the limiters whose bucket is full again, because a new limiter would be equal. If
// maxTrackedIdentities are still left, it removes all limiters.
func (t *identityLimiter) evict(now time.Time) {
	for id, l := range t.limiters {
		if l.TokensAt(now) >= float64(t.burst) {
			delete(t.limiters, id)
		}
	}
	if len(t.limiters) >= maxTrackedIdentities {
		clear(t.limiters)
	}
}
