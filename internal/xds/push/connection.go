package push

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Connection is the state of one stream, for the debug pages. It is a copy; what it points to is immutable.
type Connection struct {
	// ID is the node id, "-" and a counter.
	ID          string
	Proxy       *mesh.Proxy
	Mode        stream.Mode
	Peer        string
	ConnectedAt time.Time
	// Types is what the stream has of each type that it asked for, in push order.
	Types []Watch
}

// Watch is what a stream has of one type.
type Watch struct {
	stream.TypeState
	// Resources are those that the proxy is to have, sorted by name within a Shelf.
	Resources []*resource.Resource
}

// Connections gives the state of every open stream, sorted by ID.
func (p *Pusher) Connections() []Connection {
	p.mu.Lock()
	clients := make([]*Client, 0, len(p.clients))
	for c := range p.clients {
		clients = append(clients, c)
	}
	p.mu.Unlock()
	list := make([]Connection, 0, len(clients))
	for _, c := range clients {
		list = append(list, c.state())
	}
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (c *Client) state() Connection {
	c.mu.Lock()
	types, world := c.machine.State(), c.world
	c.mu.Unlock()
	x := Connection{ID: c.id, Proxy: c.proxy, Mode: c.mode, Peer: c.peer, ConnectedAt: c.connected}
	for _, t := range types {
		w := Watch{TypeState: t}
		for _, shelf := range world.Shelves(t.TypeURL) {
			if t.Wildcard {
				w.Resources = append(w.Resources, shelf.Set().List()...)
				continue
			}
			for _, n := range t.Names {
				if r := shelf.Set().Get(n); r != nil {
					w.Resources = append(w.Resources, r)
				}
			}
		}
		x.Types = append(x.Types, w)
	}
	return x
}

// counts is what was done since the start.
type counts struct {
	snapshot, turns, panics atomic.Uint64
	gated                   atomic.Bool  // the gate is closed
	trials                  atomic.Int64 // producers with resources that no proxy has taken yet

	mu        sync.Mutex
	generated map[string]uint64
}

func (c *counts) add(typeURL string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generated == nil {
		c.generated = map[string]uint64{}
	}
	c.generated[typeURL] += uint64(n)
}

// Stats is how much there is and was done, for tests and metrics.
type Stats struct {
	// Clients are the open streams, Classes the different kinds of proxies among them, Producers the parts that their
	// Worlds are put together from.
	Clients, Classes, Producers int
	// Snapshot is the version of the newest snapshot that all classes have been brought up to, 0 before the first.
	Snapshot uint64
	// Turns and Panics are counted since the start.
	Turns, Panics uint64
	// Generated is, by type URL, how many resources generators were asked for since the start. Most of them may have come
	// from what the generators remember.
	Generated map[string]uint64
}

// Stats gives the counts.
func (p *Pusher) Stats() Stats {
	s := Stats{
		Snapshot: p.count.snapshot.Load(), Turns: p.count.turns.Load(), Panics: p.count.panics.Load(), Generated: map[string]uint64{},
	}
	p.count.mu.Lock()
	for t, n := range p.count.generated {
		s.Generated[t] = n
	}
	p.count.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Clients, s.Classes, s.Producers = len(p.clients), p.occupied(), p.working()
	return s
}
