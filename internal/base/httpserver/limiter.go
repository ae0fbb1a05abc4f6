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

// Limits bound the connections of one port. When a limit is exceeded, one connection of the source
// with the most connections is closed. It is the oldest of the first of these phases that has any:
// fresh for longer than a second, idle, fresh, busy. A fresh connection has not yet received a
// complete request header, an idle one has no active request.
type Limits struct {
	// Connections bounds the total (default 2048).
	Connections int
	// PerSource bounds the connections of one IPv4 address or IPv6 /64 (default three quarters of
	// Connections). Clients that share an address with an attacker, behind a proxy, are safe as
	// long as the attacker opens fewer connections a second than this.
	PerSource int
}

// withDefaults returns l with the defaults in place of limits that are not positive. They are 2048
// connections, and three quarters of the connections per source.
func (l Limits) withDefaults() Limits {
	if l.Connections <= 0 {
		l.Connections = 2048
	}
	if l.PerSource <= 0 {
		l.PerSource = max(1, l.Connections*3/4)
	}
	return l
}

// freshGrace is how long a fresh connection is protected from eviction: enough for the handshake
// and headers of a normal client.
const freshGrace = time.Second

// phase is the state of a connection.
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

// source holds the connections of one address by phase, ordered by the time at which they entered
// it.
type source struct {
	prefix  netip.Prefix
	total   int
	byPhase [phases]list.List // of *conn
}

// newLimiter returns a limiter without connections. now returns the time.
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
	element  *list.Element // in source.byPhase; nil if the connection is closed
	requests int
}

// limitedListener returns connections that its limiter tracks.
type limitedListener struct {
	net.Listener
	l *limiter
}

// Accept waits for the next connection and tracks it. If there are too many, it closes another one
// without waiting for it.
func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.l.addConn(c), nil
}

// addConn tracks a connection and returns it. If there are now too many, it closes another one
// (evictionCandidate). That belongs to the same source if the limit per source is exceeded,
// otherwise to the source with the most connections.
func (l *limiter) addConn(inner net.Conn) *conn {
	prefix := sourcePrefix(inner.RemoteAddr())
	l.mu.Lock()
	s := l.sources[prefix]
	if s == nil {
		s = &source{prefix: prefix}
		l.sources[prefix] = s
	}
	c := &conn{Conn: inner, l: l, source: s}
	s.total++
	l.total++
	l.setPhase(c, fresh)
	var victim *conn
	switch {
	case s.total > l.limits.PerSource:
		victim = l.evictionCandidate(s, c)
	case l.total > l.limits.Connections:
		victim = l.evictionCandidate(l.largestSource(), c)
	}
	if victim != nil {
		l.evicted++
		l.removeConn(victim)
	}
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // without a response: the client may be slow on purpose
	}
	return c
}

// largestSource returns the source with the most connections, or nil if there is none. l.mu must be
// held. Of several with as many, any is returned.
func (l *limiter) largestSource() (most *source) {
	for _, s := range l.sources {
		if most == nil || s.total > most.total {
			most = s
		}
	}
	return most
}

// evictionCandidate returns the connection of s to close in favor of c, which may be of another
// source. It is the oldest that is fresh for longer than freshGrace, else the oldest idle, fresh or
// busy one, in this order. It returns nil if s has no connection but c. l.mu must be held.
func (l *limiter) evictionCandidate(s *source, c *conn) *conn {
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

// setPhase moves a connection to a phase, as its newest connection. l.mu must be held. The phase
// begins now.
func (l *limiter) setPhase(c *conn, p phase) {
	if c.element != nil {
		c.source.byPhase[c.phase].Remove(c.element)
	}
	c.phase, c.since = p, l.now()
	c.element = c.source.byPhase[p].PushBack(c)
}

// removeConn stops tracking a connection, which it does not close. It does nothing if the
// connection is not tracked. l.mu must be held. A source without further connections is removed,
// too.
func (l *limiter) removeConn(c *conn) {
	if c.element == nil {
		return
	}
	c.source.byPhase[c.phase].Remove(c.element)
	c.element = nil
	c.source.total--
	l.total--
	if c.source.total == 0 {
		delete(l.sources, c.source.prefix)
	}
}

// Close closes the connection and stops tracking it. It may be called after an eviction.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.removeConn(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// addRequests adds delta to the connection's active requests. Unless the connection has been
// removed, it also updates its phase: idle without requests, otherwise busy.
func (c *conn) addRequests(delta int) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.requests += delta
	switch {
	case c.element == nil:
	case c.requests == 0:
		c.l.setPhase(c, idle)
	case c.phase != busy:
		c.l.setPhase(c, busy)
	}
}

type connKey struct{}

// connContext returns a context with the tracked connection, for the context of its requests. It
// returns ctx for other connections. It finds the connection below TLS.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if tracked, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, tracked)
	}
	return ctx
}

// trackRequests wraps a handler to track the active requests of each connection. It needs
// connContext. Requests of other connections are served alike.
func trackRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.addRequests(1)
			defer c.addRequests(-1)
		}
		next.ServeHTTP(w, r)
	})
}

// sourcePrefix returns the IPv4 address or the IPv6 /64 of a peer. All peers without an IP, such as
// clients of Unix sockets, are one source.
func sourcePrefix(a net.Addr) netip.Prefix {
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
