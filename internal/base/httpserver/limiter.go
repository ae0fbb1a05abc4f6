package httpserver

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits bound the connections of one port. When a limit is exceeded, the oldest connection is closed of the first of these kinds that
// the source with the most connections has: fresh for longer than a second, idle, fresh, busy. A fresh connection has had no complete
// request header yet, an idle one has no request at the moment.
type Limits struct {
	// Connections bounds those of all sources. Default: 2048.
	Connections int
	// PerSource bounds those of one IPv4 address or IPv6 /64. Default: three quarters of Connections. Callers that share an address
	// with an attacker, behind a proxy, are safe as long as the attacker opens fewer connections a second than this.
	PerSource int
}

func (l Limits) withDefaults() Limits {
	if l.Connections <= 0 {
		l.Connections = 2048
	}
	if l.PerSource <= 0 {
		l.PerSource = max(1, l.Connections*3/4)
	}
	return l
}

// freshGrace is how long a fresh connection is closed last: time enough for a handshake and headers of a client that wants
// something.
const freshGrace = time.Second

// phase is what a connection does.
type phase int

const (
	fresh phase = iota
	idle
	busy
	phases
)

// limiter tracks the connections of one port.
type limiter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	total   int
	sources map[netip.Prefix]*source
	evicted int
}

// source is the connections of one address, by phase, the longest in it first.
type source struct {
	prefix  netip.Prefix
	total   int
	byPhase [phases]list.List // of *conn
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{limits: l.withDefaults(), now: now, sources: map[netip.Prefix]*source{}}
}

// conn is a tracked connection. limiter.mu guards its fields.
type conn struct {
	net.Conn
	l        *limiter
	source   *source
	phase    phase
	since    time.Time
	place    *list.Element // nil: closed
	requests int
}

// limitedListener hands out tracked connections.
type limitedListener struct {
	net.Listener
	l *limiter
}

// Accept waits for the next connection. It closes another one if there are too many, and never waits for one to end.
func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.l.add(c), nil
}

// add tracks a connection, and closes one that is in excess.
func (l *limiter) add(inner net.Conn) *conn {
	prefix := sourceOf(inner.RemoteAddr())
	l.mu.Lock()
	s := l.sources[prefix]
	if s == nil {
		s = &source{prefix: prefix}
		l.sources[prefix] = s
	}
	c := &conn{Conn: inner, l: l, source: s}
	s.total++
	l.total++
	l.enter(c, fresh)
	var victim *conn
	switch {
	case s.total > l.limits.PerSource:
		victim = l.victim(s, c)
	case l.total > l.limits.Connections:
		victim = l.victim(l.heaviest(), c)
	}
	if victim != nil {
		l.evicted++
		l.remove(victim)
	}
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // its client is not told anything: it may be slow on purpose
	}
	return c
}

// heaviest returns the source with the most connections.
func (l *limiter) heaviest() (most *source) {
	for _, s := range l.sources {
		if most == nil || s.total > most.total {
			most = s
		}
	}
	return most
}

// victim returns the connection of a source that is to be closed for c; nil if c is its only one.
func (l *limiter) victim(s *source, c *conn) *conn {
	oldest := func(p phase) *conn {
		if e := s.byPhase[p].Front(); e != nil && e.Value != c {
			return e.Value.(*conn) //nolint:forcetypeassert // the lists hold nothing else
		}
		return nil
	}
	stale := oldest(fresh)
	if stale != nil && l.now().Sub(stale.since) > freshGrace {
		return stale
	}
	for _, p := range []phase{idle, fresh, busy} {
		if v := oldest(p); v != nil {
			return v
		}
	}
	return nil
}

// enter moves a connection into a phase. l.mu is held.
func (l *limiter) enter(c *conn, p phase) {
	if c.place != nil {
		c.source.byPhase[c.phase].Remove(c.place)
	}
	c.phase, c.since = p, l.now()
	c.place = c.source.byPhase[p].PushBack(c)
}

// remove forgets a connection. It does nothing if that has been done. l.mu is held.
func (l *limiter) remove(c *conn) {
	if c.place == nil {
		return
	}
	c.source.byPhase[c.phase].Remove(c.place)
	c.place = nil
	c.source.total--
	l.total--
	if c.source.total == 0 {
		delete(l.sources, c.source.prefix)
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// count adds a request to the connection, or takes one off, and moves the connection into the phase that follows.
func (c *conn) count(delta int) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.requests += delta
	switch {
	case c.place == nil:
	case c.requests == 0:
		c.l.enter(c, idle)
	case c.phase != busy:
		c.l.enter(c, busy)
	}
}

type connKey struct{}

// connContext notes the connection in the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if tracked, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, tracked)
	}
	return ctx
}

// counted has the requests of each connection counted.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.count(1)
			defer c.count(-1)
		}
		next.ServeHTTP(w, r)
	})
}

// sourceOf returns the IPv4 address or the IPv6 /64 of a peer. Peers that have no IP, of Unix sockets, are one source.
func sourceOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
