package ca

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// turns bounds how fast each identity is given certificates, so that one workload gone wild costs the others nothing.
type turns struct {
	rate  rate.Limit
	burst int
	now   func() time.Time

	mu   sync.Mutex
	each map[spiffe.ID]*rate.Limiter
}

// maxTurns bounds the identities that are counted. Those that have had nothing for a while are forgotten first.
const maxTurns = 20_000

func newTurns(perSecond float64, burst int, now func() time.Time) *turns {
	return &turns{rate: rate.Limit(perSecond), burst: burst, now: now, each: map[spiffe.ID]*rate.Limiter{}}
}

// take says whether an identity may have one more certificate now.
func (t *turns) take(id spiffe.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	l := t.each[id]
	if l == nil {
		if len(t.each) >= maxTurns {
			t.forget(now)
		}
		l = rate.NewLimiter(t.rate, t.burst)
		t.each[id] = l
	}
	return l.AllowN(now, 1)
}

// forget drops identities that are as good as new, and if there are none, all.
func (t *turns) forget(now time.Time) {
	for id, l := range t.each {
		if l.TokensAt(now) >= float64(t.burst) {
			delete(t.each, id)
		}
	}
	if len(t.each) >= maxTurns {
		clear(t.each)
	}
}
