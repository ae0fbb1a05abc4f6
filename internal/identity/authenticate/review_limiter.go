package authenticate

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

const (
	// maxReviews bounds concurrent token reviews, reviewsPerSource the concurrent reviews of one
	// source.
	maxReviews, reviewsPerSource = 64, 16
	// badTokenBudget is how many reviews of one source may be pending or have failed; it refills at
	// badTokensPerSecond. Valid tokens cost nothing, because many proxies may share an address.
	badTokenBudget, badTokensPerSecond = 200, 2
	// maxReviewSources bounds the tracked sources.
	maxReviewSources = 10_000
)

// reviewLimiter limits token reviews per source, so that a flood of bad tokens from one source
// neither overloads the API server nor blocks other sources.
type reviewLimiter struct {
	now   func() time.Time
	slots *semaphore.Weighted

	mu      sync.Mutex
	sources map[netip.Prefix]*reviewSource
}

// reviewSource is the state of one IPv4 address or IPv6 /64. reviewLimiter.mu guards budget and
// pending.
type reviewSource struct {
	slots   *semaphore.Weighted
	budget  *rate.Limiter
	pending int
}

// newReviewLimiter returns a limiter without sources. now is its clock.
func newReviewLimiter(now func() time.Time) *reviewLimiter {
	return &reviewLimiter{now: now, slots: semaphore.NewWeighted(maxReviews), sources: map[netip.Prefix]*reviewSource{}}
}

// acquire waits for a review slot of the peer's source and for one of all sources. The error wraps
// ErrUnavailable if the source's badTokenBudget does not cover its pending reviews and this one, or
// if ctx ends first. Otherwise the caller must call done once; good reports whether the token was
// valid, and a bad one uses up budget.
func (l *reviewLimiter) acquire(ctx context.Context, peer netip.Addr) (done func(good bool), err error) {
	key := reviewKey(peer)
	l.mu.Lock()
	s := l.getOrAddSource(key)
	if s.budget.TokensAt(l.now()) < float64(s.pending+1) {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: too many bad tokens from %s", ErrUnavailable, peer)
	}
	s.pending++
	l.mu.Unlock()

	finish := func(bad bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.pending--
		if bad {
			s.budget.AllowN(l.now(), 1)
		}
	}
	if err := s.slots.Acquire(ctx, 1); err != nil {
		finish(false)
		return nil, fmt.Errorf("%w: too many reviews at once from %s", ErrUnavailable, peer)
	}
	if err := l.slots.Acquire(ctx, 1); err != nil {
		s.slots.Release(1)
		finish(false)
		return nil, fmt.Errorf("%w: too many reviews at once", ErrUnavailable)
	}
	return func(good bool) {
		l.slots.Release(1)
		s.slots.Release(1)
		finish(!good)
	}, nil
}

// getOrAddSource returns the state of a source, and creates it if there is none. At
// maxReviewSources it first evicts all idle sources with a full budget, and then other idle ones
// until an eighth is free. Sources with pending reviews stay, even over the maximum. l.mu must be
// held.
func (l *reviewLimiter) getOrAddSource(key netip.Prefix) *reviewSource {
	if s := l.sources[key]; s != nil {
		return s
	}
	if len(l.sources) >= maxReviewSources {
		now := l.now()
		for k, s := range l.sources {
			if s.pending == 0 && s.budget.TokensAt(now) >= badTokenBudget {
				delete(l.sources, k)
			}
		}
		// In a flood from many addresses, evict one in eight, so that not every new source scans
		// the map.
		for k, s := range l.sources {
			if len(l.sources) <= maxReviewSources-maxReviewSources/8 {
				break
			}
			if s.pending == 0 {
				delete(l.sources, k)
			}
		}
	}
	s := &reviewSource{
		slots:  semaphore.NewWeighted(reviewsPerSource),
		budget: rate.NewLimiter(badTokensPerSecond, badTokenBudget),
	}
	l.sources[key] = s
	return s
}

// reviewKey returns the source of a peer to which limits apply: its IPv4 address or IPv6 /64. All
// unknown peers share the zero value.
func reviewKey(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
