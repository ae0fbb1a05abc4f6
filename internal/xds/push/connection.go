package push

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Connection is the state of one stream, for the debug pages. It is a copy; what it points to is immutable.
type Connection struct {
	// ID is "name.namespace" of the proxy, "-" and a counter.
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
	// SentAt is when the newest response of the type was written; zero: none was.
	SentAt time.Time
	// Shelves hold what the class is to have of the type. Of types asked for by name the proxy is to have only what it asked for.
	Shelves []*stream.Shelf
}

// Resources gives what the proxy is to have of the type, sorted by name within a Shelf. It is a list of its own.
func (w Watch) Resources() []*resource.Resource {
	var list []*resource.Resource
	for _, shelf := range w.Shelves {
		if w.Wildcard {
			list = append(list, shelf.Set().List()...)
			continue
		}
		for _, n := range w.Names {
			if r := shelf.Set().Get(n); r != nil {
				list = append(list, r)
			}
		}
	}
	return list
}

// Asked gives the names of a type that the stream has asked for, sorted. The list must not be changed.
func (c Connection) Asked(typeURL string) []string {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w.Names
		}
	}
	return nil
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
	types, world, sent := c.machine.State(), c.world, maps.Clone(c.sent)
	c.mu.Unlock()
	x := Connection{ID: c.id, Proxy: c.proxy, Mode: c.mode, Peer: c.peer, ConnectedAt: c.connected}
	for _, t := range types {
		x.Types = append(x.Types, Watch{TypeState: t, SentAt: sent[t.TypeURL], Shelves: world.Shelves(t.TypeURL)})
	}
	return x
}

// Disconnect ends a stream by its ID, and says whether there was one. The proxy connects again.
func (p *Pusher) Disconnect(id string) bool {
	p.mu.Lock()
	var found *Client
	for c := range p.clients {
		if c.id == id {
			found = c
		}
	}
	p.mu.Unlock()
	if found == nil {
		return false
	}
	found.Close()
	return true
}

// Sharing is how much of what proxies have is the same.
type Sharing struct {
	// Resources are the different ones, Unique their bytes.
	Resources int
	Unique    int64
	// Total is the bytes that all proxies together have. Of types asked for by name it counts all that the class asked for.
	Total int64
}

// Sharing counts. It goes through the resources of each Shelf once.
func (p *Pusher) Sharing() Sharing {
	clients := map[*stream.Shelf]int{}
	p.mu.Lock()
	for _, cl := range p.classes {
		for _, s := range cl.shelves {
			clients[s] += len(cl.clients)
		}
	}
	p.mu.Unlock()
	var x Sharing
	seen := map[*resource.Resource]bool{}
	for shelf, n := range clients {
		for _, r := range shelf.Set().List() {
			size := int64(len(r.Body))
			x.Total += size * int64(n)
			if n > 0 && !seen[r] {
				seen[r] = true
				x.Resources++
				x.Unique += size
			}
		}
	}
	return x
}

// counts is what was done since the start.
type counts struct {
	snapshot, turns, panics atomic.Uint64
	gated                   atomic.Bool  // the gate is closed
	observed                atomic.Int64 // producers and classes with resources that a voter has refused
	// candidates counts, by type URL, the producers with resources that no voter has acknowledged yet. The map does not change.
	candidates map[string]*atomic.Int64

	mu        sync.Mutex
	generated map[string]uint64
}

// awaited reports whether it matters which resources of a type voters acknowledge.
func (c *counts) awaited(typeURL string) bool {
	n := c.candidates[typeURL]
	return n != nil && n.Load() > 0 || c.observed.Load() > 0
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
