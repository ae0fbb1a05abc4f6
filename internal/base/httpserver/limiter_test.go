package httpserver

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// pipe is a connection from an address that records whether it was closed.
type pipe struct {
	net.Conn
	from   netip.Addr
	closed bool
}

func (p *pipe) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.from, 1234))
}
func (p *pipe) Close() error { p.closed = true; return nil }

// port is a limiter with a clock controlled by the test.
type port struct {
	*limiter
	time time.Time
}

func newPort(l Limits) *port {
	p := &port{time: time.Unix(1000, 0)}
	p.limiter = newLimiter(l, func() time.Time { return p.time })
	return p
}

func (p *port) open(from string) (*conn, *pipe) {
	x := &pipe{from: netip.MustParseAddr(from)}
	p.time = p.time.Add(time.Millisecond)
	return p.addConn(x), x
}

// TestVictims tests which connection of a source is closed for the next one.
func TestVictims(t *testing.T) {
	const from = "10.0.0.1"
	for name, c := range map[string]struct {
		prepare func(p *port) *pipe // returns the connection that is closed
	}{
		"the oldest fresh one": {func(p *port) *pipe {
			_, a := p.open(from)
			p.open(from)
			p.open(from)
			return a
		}},
		"an idle one before one that is fresh": {func(p *port) *pipe {
			p.open(from)
			b, victim := p.open(from)
			b.addRequests(1)
			b.addRequests(-1)
			p.open(from)
			return victim
		}},
		"a stale one before one that is idle": {func(p *port) *pipe {
			_, victim := p.open(from)
			b, _ := p.open(from)
			b.addRequests(1)
			b.addRequests(-1)
			p.open(from)
			p.time = p.time.Add(2 * time.Second)
			return victim
		}},
		"the one that is idle for the longest": {func(p *port) *pipe {
			a, _ := p.open(from)
			b, victim := p.open(from)
			c, _ := p.open(from)
			for _, x := range []*conn{a, b, c, a} { // a again
				x.addRequests(1)
				p.time = p.time.Add(time.Millisecond)
				x.addRequests(-1)
			}
			return victim
		}},
		"a fresh one before one that is busy": {func(p *port) *pipe {
			a, _ := p.open(from)
			b, _ := p.open(from)
			a.addRequests(1)
			b.addRequests(1)
			_, victim := p.open(from)
			return victim
		}},
		"the one that is busy for the longest, if all are": {func(p *port) *pipe {
			var victim *pipe
			for i := range 3 {
				c, x := p.open(from)
				c.addRequests(1)
				c.addRequests(1) // HTTP/2
				c.addRequests(-1)
				if i == 0 {
					victim = x
				}
			}
			return victim
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPort(Limits{Connections: 100, PerSource: 3})
			victim := c.prepare(p)
			if p.evicted > 0 {
				t.Fatal("closed too early")
			}
			if _, last := p.open(from); last.closed || !victim.closed || p.evicted != 1 {
				t.Errorf("the victim is closed: %v, the newest: %v, closed %d", victim.closed, last.closed, p.evicted)
			}
		})
	}
}

// TestSourcesAreApart tests that a source that exceeds its limit, or fills the port, closes only
// connections of its own.
func TestSourcesAreApart(t *testing.T) {
	p := newPort(Limits{Connections: 50, PerSource: 30})
	_, honest := p.open("10.0.0.9")
	p.time = p.time.Add(time.Minute) // the oldest, and silent for long
	for i := range 500 {
		p.open([]string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}[i%4])
	}
	if honest.closed {
		t.Error("the connection of another source was closed")
	}
	if p.total != 50 || len(p.sources) != 4 { // the two of one /64 are one source
		t.Errorf("%d connections of %d sources", p.total, len(p.sources))
	}
	for i := range 500 {
		if p.open("10.0.1.1"); i == 0 && p.total != 50 {
			t.Errorf("%d connections", p.total)
		}
	}
	if s := p.sources[netip.MustParsePrefix("10.0.1.1/32")]; s.total > 30 {
		t.Errorf("%d connections of one source", s.total)
	}
}

// TestClosedConnectionsAreForgotten tests that a connection that is closed or evicted repeatedly is
// counted once.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	p := newPort(Limits{Connections: 2})
	a, _ := p.open("10.0.0.1")
	b, _ := p.open("10.0.0.2")
	for range 2 {
		_ = a.Close()
		_ = b.Close()
		a.addRequests(1)
		a.addRequests(-1)
	}
	if p.total != 0 || len(p.sources) != 0 {
		t.Errorf("%d connections of %d sources are left", p.total, len(p.sources))
	}
	for range 10 {
		p.open("::1")
	}
	if p.total != 1 {
		t.Errorf("%d connections, want 1 of the source", p.total)
	}
}
