package push

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Connection is the state of one stream, for the debug pages. It is a copy; what it points to is
// immutable.
type Connection struct {
	// ID is "name.namespace" of the proxy, "-" and a counter.
	ID          string
	Proxy       *mesh.Proxy
	Mode        stream.Mode
	Peer        string
	ConnectedAt time.Time
	// Types has each type that the stream subscribes to, in push order.
	Types []Watch
}

// Watch is what a stream has of one type.
type Watch struct {
	stream.TypeState
	// SentAt is when the newest response of the type was written; zero if none was.
	SentAt time.Time
	// Shelves hold what the class is to have of the type. Of types that are requested by name, the
	// proxy is to have only what it subscribes to.
	Shelves []*stream.Shelf
}

// Resources returns what the proxy is to have of the type, sorted by name within a Shelf. The
// caller owns the list.
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

// Asked returns the names of a type that the stream subscribes to, sorted. The list must not be
// changed.
func (c Connection) Asked(typeURL string) []string {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w.Names
		}
	}
	return nil
}

// Connections returns the state of every open stream, sorted by ID.
func (p *Pusher) Connections() []Connection {
	clients := p.clients.all()
	list := make([]Connection, 0, len(clients))
	for _, c := range clients {
		list = append(list, stateOf(c))
	}
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func stateOf(c *Client) Connection {
	c.mu.Lock()
	types, world, sent := c.machine.State(), c.world, maps.Clone(c.sent)
	c.mu.Unlock()
	x := Connection{ID: c.id, Proxy: c.node, Mode: c.mode, Peer: c.peer, ConnectedAt: c.connected}
	for _, t := range types {
		x.Types = append(x.Types, Watch{TypeState: t, SentAt: sent[t.TypeURL], Shelves: world.Shelves(t.TypeURL)})
	}
	return x
}

// Sharing is how much of what proxies have is the same.
type Sharing struct {
	// Resources is the number of distinct ones, Unique their size in bytes.
	Resources int
	Unique    int64
	// Total is the size of what all proxies together have. Of types that are requested by name it
	// includes all that the class requested.
	Total int64
}

// Sharing returns the present sizes. It reads the resources of each Shelf once.
func (p *Pusher) Sharing() Sharing {
	var clients map[*stream.Shelf]int
	p.query(func(r *rollout.Rollout) { clients = r.Shelves() })
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

// Stats is how much there is and was done, for tests and metrics.
type Stats struct {
	// Clients is the number of open streams, Classes of the classes that they belong to, and
	// Producers of the generators and scopes whose resources these are served.
	Clients, Classes, Producers int
	// Snapshot is the version of the newest snapshot that all classes have been brought up to, 0
	// before the first.
	Snapshot uint64
	// Turns and Panics are counted since the start.
	Turns, Panics uint64
	// Generated is, by type URL, how many resources generators were asked for since the start. Most
	// of them may have come from caches of the generators.
	Generated map[string]uint64
}

// Stats returns the present numbers.
func (p *Pusher) Stats() Stats {
	var n rollout.Counts
	p.query(func(r *rollout.Rollout) { n = r.Counts() })
	return Stats{
		Clients: n.Clients, Classes: n.Classes, Producers: n.Producers, Snapshot: p.counts.snapshot.Load(),
		Turns: p.counts.turns.Load(), Panics: p.counts.panics.Load(), Generated: p.counts.generatedByType(),
	}
}

// Quarantine returns what is kept from proxies, sorted by type, name and time.
func (p *Pusher) Quarantine() []Quarantined {
	var list []Quarantined
	p.query(func(r *rollout.Rollout) { list = r.Quarantined() })
	slices.SortFunc(list, func(a, b Quarantined) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), a.Suspended.Compare(b.Suspended),
			a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
	return list
}
