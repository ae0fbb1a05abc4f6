package server

import (
	"context"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Rebalance configures how connections are closed so that proxies reconnect and replicas end up
// with equal numbers. A replica needs no knowledge of the others. Each closes the same share of its
// connections, so a replica with more connections closes more. The load balancer in front of them
// then spreads the reconnecting proxies evenly. The zero value closes nothing.
type Rebalance struct {
	// MaxAge is the approximate age at which a connection is closed; 0 means never
	// (--keepaliveMaxServerConnectionAge).
	MaxAge time.Duration
	// HourlyShare is the part of its connections that a replica closes in an hour, the oldest
	// first. 1 means as many as it has, and 0 means none.
	HourlyShare float64
}

const (
	// closingRate bounds how many connections are closed per second, for either reason.
	closingRate = 10
	// ageJitter spreads connections that were opened together. They are closed at MaxAge plus or
	// minus up to this fraction of it.
	ageJitter = 0.1
)

var errRebalanced = status.Error(
	codes.Unavailable,
	"connection closed to rebalance proxies between replicas; reconnect",
)

// Run closes connections as configured by Options.Rebalance, once a second, until the context ends.
// It returns at once if nothing is configured.
func (s *Server) Run(ctx context.Context) {
	if s.rebalance == (Rebalance{}) {
		return
	}
	var owed float64
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(time.Second):
			owed = s.closeDueConnections(s.clock.Now(), owed)
		}
	}
}

// closeDueConnections retires idle connections, at most closingRate: expired ones, and as many of
// the oldest as HourlyShare requires after another second. Their streams end with errRebalanced.
// owed is the number of connections that HourlyShare requires and that were not closed yet; it
// returns its new value.
func (s *Server) closeDueConnections(now time.Time, owed float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	links, idle := s.openLinks()
	owed = min(owed+s.rebalance.HourlyShare*float64(links)/3600, closingRate)
	closed := 0
	for _, l := range idle {
		if closed == closingRate {
			break
		}
		if owed < 1 && !l.isExpired(now, s.rebalance.MaxAge) {
			continue
		}
		owed = max(owed-1, 0)
		closed++
		l.retired.Store(true)
	}
	if closed == 0 {
		return owed
	}
	for x := range s.sessions {
		if x.link.retired.Load() {
			x.end(errRebalanced)
		}
	}
	s.log.Debug("ADS: connections closed to rebalance proxies between replicas", "closed", closed, "open", links)
	return owed
}

// openLinks returns the number of connections with streams, and the idle ones, oldest first. A
// connection is idle if no response is being written on it. Retired connections are excluded.
// Server.mu must be held.
func (s *Server) openLinks() (n int, idle []*link) {
	busy := map[*link]bool{}
	for x := range s.sessions {
		if !x.link.retired.Load() {
			busy[x.link] = busy[x.link] || x.busy.Load()
		}
	}
	for l, b := range busy {
		if !b {
			idle = append(idle, l)
		}
	}
	slices.SortFunc(idle, func(a, b *link) int { return a.since.Compare(b.since) })
	return len(busy), idle
}

// isExpired reports whether the connection is at least as old as maxAge, which varies by up to
// ageJitter with a hash of the client's address. It returns false if maxAge is not positive.
func (l *link) isExpired(now time.Time, maxAge time.Duration) bool {
	if maxAge <= 0 {
		return false
	}
	deviation := (2*float64(xxhash.Sum64String(l.peer)>>11)/(1<<53) - 1) * ageJitter
	return now.Sub(l.since) >= maxAge+time.Duration(deviation*float64(maxAge))
}
