package server

import (
	"context"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Evening is how connections are moved on, so that those of several replicas become even in number. No replica knows how many
// the others have, and none needs to: each closes the same share of its own, so who has more closes more, and the
// balancer before them gives every replica the same part of what was closed. The zero value moves nothing.
type Evening struct {
	// MaxAge closes a connection at about that age, 0: never (--keepaliveMaxServerConnectionAge).
	MaxAge time.Duration
	// Share is how many of its connections a replica closes in an hour, the oldest first: 1 is as many as it has, 0 none.
	Share float64
}

const (
	// closingRate bounds how many connections are closed in a second, for whatever reason.
	closingRate = 10
	// ageJitter spreads connections that came together: they are closed at MaxAge give or take this part of it.
	ageJitter = 0.1
)

var errMoved = status.Error(codes.Unavailable, "connect again: connections are spread over the replicas anew")

// Run moves connections on until the context ends.
func (s *Server) Run(ctx context.Context) {
	if s.evening == (Evening{}) {
		return
	}
	var owed float64
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(time.Second):
			owed = s.even(s.clock.Now(), owed)
		}
	}
}

// even closes what is due after another second. owed is what Share asks for and was not closed yet.
func (s *Server) even(now time.Time, owed float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	links, idle := s.links()
	owed = min(owed+s.evening.Share*float64(links)/3600, closingRate)
	closed := 0
	for _, l := range idle {
		if closed == closingRate {
			break
		}
		if owed < 1 && !l.expired(now, s.evening.MaxAge) {
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
			x.end(errMoved)
		}
	}
	s.log.Debug("ADS: connections are moved on", "closed", closed, "open", links)
	return owed
}

// links counts the connections with streams, and gives those on which no response is being written, the oldest first.
// Server.mu is held.
func (s *Server) links() (n int, idle []*link) {
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

// expired says whether the connection is older than it may become. Whose address hashes to what decides by how much it
// deviates from the others.
func (l *link) expired(now time.Time, maxAge time.Duration) bool {
	if maxAge <= 0 {
		return false
	}
	deviation := (2*float64(xxhash.Sum64String(l.peer)>>11)/(1<<53) - 1) * ageJitter
	return now.Sub(l.since) >= maxAge+time.Duration(deviation*float64(maxAge))
}
