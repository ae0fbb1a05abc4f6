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
	// maxReviews bounds the token reviews that are under way at once, reviewsPerSource those of one source.
	maxReviews, reviewsPerSource = 64, 16
	// badTokens is how many reviews of one source may be pending or have failed, and badTokensPerSecond how fast that budget comes back.
	// A good token costs nothing: proxies of a fleet may share an address.
	badTokens, badTokensPerSecond = 200, 2
	// maxReviewSources bounds the sources that are tracked.
	maxReviewSources = 10_000
)

// reviewLimiter shares the reviews of an API server among sources, so that a flood of bad tokens from one of them costs the API server
// little and the others nothing.
type reviewLimiter struct {
	now    func() time.Time
	places *semaphore.Weighted

	mu      sync.Mutex
	sources map[netip.Prefix]*reviewSource
}

// reviewSource is what is known of an IPv4 address or IPv6 /64. reviewLimiter.mu guards budget and pending.
type reviewSource struct {
	places  *semaphore.Weighted
	budget  *rate.Limiter
	pending int
}

func newReviewLimiter(now func() time.Time) *reviewLimiter {
	return &reviewLimiter{now: now, places: semaphore.NewWeighted(maxReviews), sources: map[netip.Prefix]*reviewSource{}}
}

// acquire waits for a place for a review of a source. The error wraps ErrUnavailable if the source has no budget left, or the context ended
// first. The caller must call done with whether the token was good.
func (l *reviewLimiter) acquire(ctx context.Context, peer netip.Addr) (done func(good bool), err error) {
	key := reviewKey(peer)
	l.mu.Lock()
	s := l.source(key)
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
	if err := s.places.Acquire(ctx, 1); err != nil {
		finish(false)
		return nil, fmt.Errorf("%w: too many reviews at once from %s", ErrUnavailable, peer)
	}
	if err := l.places.Acquire(ctx, 1); err != nil {
		s.places.Release(1)
		finish(false)
		return nil, fmt.Errorf("%w: too many reviews at once", ErrUnavailable)
	}
	return func(good bool) {
		l.places.Release(1)
		s.places.Release(1)
		finish(!good)
	}, nil
}

// source returns what is known of a source. If too many are tracked, those are forgotten that are as good as new. l.mu is held.
func (l *reviewLimiter) source(key netip.Prefix) *reviewSource {
	if s := l.sources[key]; s != nil {
		return s
	}
	if len(l.sources) >= maxReviewSources {
		now := l.now()
		for k, s := range l.sources {
			if s.pending == 0 && s.budget.TokensAt(now) >= badTokens {
				delete(l.sources, k)
			}
		}
		// In a flood from many addresses, one in eight is forgotten: the scan must not be repeated for each new one.
		for k, s := range l.sources {
			if len(l.sources) <= maxReviewSources-maxReviewSources/8 {
				break
			}
			if s.pending == 0 {
				delete(l.sources, k)
			}
		}
	}
	s := &reviewSource{places: semaphore.NewWeighted(reviewsPerSource), budget: rate.NewLimiter(badTokensPerSecond, badTokens)}
	l.sources[key] = s
	return s
}

// reviewKey returns the IPv4 address or IPv6 /64 of a peer. Peers that are not known are one source.
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
