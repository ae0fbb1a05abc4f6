package push

import (
	"context"
	"net/netip"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// turn is one round of bringing everything up to a snapshot, and what is known of the one before.
type turn struct {
	changed time.Time // when the first of its changes was published
	pending int       // producers that are not done yet
	done    chan struct{}
	proxies int // that got a new World
	last    lastTurn
}

// push does one turn; false when the context is over before it is done.
func (p *Pusher) push(ctx context.Context) bool {
	began := p.clock.Now()
	p.mu.Lock()
	in := p.inbox
	p.inbox = inbox{}
	moves := p.keyMoves(in)
	clients := p.concerned(in.delta, moves)
	p.mu.Unlock()

	keys := make(map[*Client]view.Key, len(clients))
	for _, c := range clients {
		if key, ok := p.keyFor(in.snapshot, c.proxy); ok {
			keys[c] = key
		}
	}

	done := p.begin(in, moves, keys)
	select {
	case <-ctx.Done():
		return false
	case <-done:
	}

	p.metrics.Published(began.Sub(in.first), triggers(in.delta))
	p.count.turns.Add(1)
	p.count.snapshot.Store(in.snapshot.Version)
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.clock.Now()
	p.turn = turn{last: lastTurn{ended: ended, took: ended.Sub(began), proxies: p.turn.proxies}}
	p.log.Debug("push done", "snapshot", in.snapshot.Version, "took", p.turn.last.took, "proxies", p.turn.last.proxies)
	return true
}

// begin moves everything on to the snapshot, and gives a channel that is closed when all that follows from it is done.
// keys are those of the clients that the change concerns; of clients that came meanwhile they are still to be found.
func (p *Pusher) begin(in inbox, moves func(*mesh.Proxy) bool, keys map[*Client]view.Key) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.snapshot
	p.snapshot = in.snapshot
	p.forgive()
	done := make(chan struct{})
	p.turn = turn{changed: in.first, pending: 1, done: done, last: p.turn.last}
	others := p.others(old, in.delta)
	if others.called {
		p.shut(true)
		p.gate.elsewhere = true
	}
	for _, c := range p.concerned(in.delta, moves) {
		k, known := keys[c]
		if !known {
			if k, known = p.keyFor(in.snapshot, c.proxy); !known {
				c.unkeyed = true // it stays where it is
				continue
			}
		}
		c.unkeyed = false
		if c.class != nil && c.class.key.Inbound != k.Inbound {
			p.shut(false)
			p.gate.servers[c] = struct{}{}
		}
		p.place(c, p.eased(c, old, k))
	}
	p.wait(others)
	for _, pr := range p.producers {
		p.mark(pr, in.delta)
	}
	p.metrics.Classes(p.occupied())
	p.finished()
	return done
}

// finished notes that a part of the turn is done. Pusher.mu is held.
func (p *Pusher) finished() {
	if p.turn.pending--; p.turn.pending == 0 {
		close(p.turn.done)
	}
}

// concerned gives the clients whose Key a change may have altered. One of endpoints alone alters only those of proxies at
// the addresses that it names. Pusher.mu is held.
func (p *Pusher) concerned(d snapshot.Delta, moves func(*mesh.Proxy) bool) []*Client {
	var list []*Client
	if !d.EndpointsOnly() {
		for c := range p.clients {
			if c.class == nil || c.unkeyed || moves(c.proxy) {
				list = append(list, c)
			}
		}
		return list
	}
	for _, addresses := range []map[netip.Addr]struct{}{d.Workloads, d.Served} {
		for a := range addresses {
			for c := range p.addresses[a] {
				list = append(list, c)
			}
		}
	}
	return list
}

// triggers names the kinds of change in a Delta.
func triggers(d snapshot.Delta) []string {
	var list []string
	if d.All {
		list = append(list, "global")
	}
	if len(d.Services) > 0 {
		list = append(list, "service")
	}
	if len(d.Configs) > 0 {
		list = append(list, "config")
	}
	if len(d.Endpoints) > 0 {
		list = append(list, "endpoint")
	}
	if len(d.Workloads) > 0 {
		list = append(list, "proxyupdate")
	}
	return list
}
