package push

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Connection is the state of one stream, for the debug pages. It is a copy; the values it points to
// are immutable.
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

// Watch is the state of one type on a stream.
type Watch struct {
	stream.TypeState
	// SentAt is when the newest response of the type was written; zero if none was.
	SentAt time.Time
	// Groups contain the resources of the type for the whole class. Of a type that is subscribed
	// by name, the proxy receives only the names in its subscription.
	Groups []*stream.ResourceGroup
}

// Resources returns the resources of the type that the proxy should have: all that its wildcard
// covers, or without a wildcard the named ones that exist. They are sorted by name within each
// ResourceGroup. The caller owns the list.
func (w Watch) Resources() []*resource.Resource {
	var list []*resource.Resource
	for _, group := range w.Groups {
		switch {
		case w.Wildcard && w.Excludes == nil:
			list = slices.AppendSeq(list, group.Set().All())
		case w.Wildcard:
			for r := range group.Set().All() {
				if w.Covers(r.Name) {
					list = append(list, r)
				}
			}
		default:
			for _, n := range w.Names {
				if r := group.Set().Get(n); r != nil {
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// Covers reports whether the stream subscribes to a name, explicitly or by a wildcard that does not
// exclude it.
func (w Watch) Covers(name string) bool {
	return w.Wildcard && (w.Excludes == nil || !w.Excludes(name)) || slices.Contains(w.Names, name)
}

// SubscribedNames returns the sorted names of a type that the stream subscribes to, or nil if it
// does not subscribe to the type. The caller must not change the list.
func (c Connection) SubscribedNames(typeURL string) []string {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w.Names
		}
	}
	return nil
}

// Connections returns the state of every open stream, sorted by ID.
func (x Reports) Connections() []Connection {
	clients := x.pusher.clients.all()
	list := make([]Connection, 0, len(clients))
	for _, c := range clients {
		list = append(list, stateOf(c))
	}
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// stateOf returns a copy of the state of a stream at this moment: its proxy, and for each
// subscribed type the subscription, the time of the last response (zero if there was none) and the
// ResourceGroups. These are of the newest ResourceSnapshot that the stream has taken, for its whole
// class, sent or not. c.mu must not be held.
func stateOf(c *Client) Connection {
	c.mu.Lock()
	types, resources, sent := c.machine.State(), c.resources, maps.Clone(c.sent)
	c.mu.Unlock()
	x := Connection{
		ID: c.id, Proxy: c.node, Mode: c.mode, Peer: c.peer, ConnectedAt: c.connected, Types: make([]Watch, 0, len(types)),
	}
	for _, t := range types {
		x.Types = append(x.Types, Watch{TypeState: t, SentAt: sent[t.TypeURL], Groups: resources.Groups(t.TypeURL)})
	}
	return x
}

// Connection returns the state of the stream with this ID. It returns false if there is none.
func (x Reports) Connection(id string) (Connection, bool) {
	c := x.pusher.clients.find(id)
	if c == nil {
		return Connection{}, false
	}
	return stateOf(c), true
}

// StreamState is the state of one stream without the details of a Connection.
type StreamState struct {
	ID          string
	Proxy       *mesh.Proxy
	ConnectedAt time.Time
	Sync        stream.SyncState
	// InvalidMetadata are the invalid values in the metadata of the proxy. The caller must not
	// change the list.
	InvalidMetadata []snapshot.InvalidMetadata
}

// StreamStates returns the state of every open stream, in no particular order. It costs a small
// part of Connections, because it copies nothing and waits for no stream.
func (x Reports) StreamStates() []StreamState {
	clients := x.pusher.clients.all()
	list := make([]StreamState, len(clients))
	for i, c := range clients {
		list[i] = StreamState{
			ID:              c.id,
			Proxy:           c.node,
			ConnectedAt:     c.connected,
			Sync:            stream.SyncState(c.syncState.Load()),
			InvalidMetadata: c.invalidMetadata,
		}
	}
	return list
}

// ViewKeys returns the distinct Keys of the open streams, in no particular order, as of the newest
// snapshot that was pushed.
func (x Reports) ViewKeys() []view.Key {
	var list []view.Key
	x.pusher.queryRollout(func(r *rollout.Rollout) { list = r.ViewKeys() })
	return list
}

// Sharing measures how many bytes of configuration proxies have in common.
type Sharing struct {
	// Resources is the number of distinct resources. Unique is their size in bytes.
	Resources int
	Unique    int64
	// Total is the size in bytes of the configuration of all proxies together. Types that are
	// subscribed by name are included with all names that the class requested.
	Total int64
}

// Sharing returns the number and total size of the distinct resources that have clients (Resources,
// Unique). Total is the size if each client had its own copy. Only encoded bodies are measured. It
// waits for the rollout, and reads every served resource.
func (x Reports) Sharing() Sharing {
	var clients map[*stream.ResourceGroup]int
	x.pusher.queryRollout(func(r *rollout.Rollout) { clients = r.Groups() })
	var sum Sharing
	seen := map[*resource.Resource]bool{}
	for group, n := range clients {
		for r := range group.Set().All() {
			size := int64(len(r.Body))
			sum.Total += size * int64(n)
			if n > 0 && !seen[r] {
				seen[r] = true
				sum.Resources++
				sum.Unique += size
			}
		}
	}
	return sum
}

// Stats are the sizes and counters of a Pusher, for tests and metrics.
type Stats struct {
	// Clients is the number of open streams, and Classes the number of classes that they belong to.
	// Producers is the number of pairs of a generator and a scope whose resources the classes are
	// served.
	Clients, Classes, Producers int
	// Snapshot is the version of the newest snapshot that all classes were updated to; 0 before the
	// first.
	Snapshot uint64
	// Turns and Panics are counters since the start.
	Turns, Panics uint64
	// Generated is the number of resources requested from generators since the start, by type URL.
	// Most of them may have come from caches of the generators.
	Generated map[string]uint64
}

// Stats returns the current numbers of clients, classes and producers, the number of the last
// pushed snapshot, and the turns, panics and generated resources since the start.
func (x Reports) Stats() Stats {
	var n rollout.Counts
	x.pusher.queryRollout(func(r *rollout.Rollout) { n = r.Counts() })
	return Stats{
		Clients:   n.Clients,
		Classes:   n.Classes,
		Producers: n.Producers,
		Snapshot:  x.pusher.counts.snapshot.Load(),
		Turns:     x.pusher.counts.turns.Load(),
		Panics:    x.pusher.counts.panics.Load(),
		Generated: x.pusher.counts.generatedByType(),
	}
}

// Quarantine returns the resources and EnvoyFilters that are withheld from connected proxies,
// sorted by type, name, suspended EnvoyFilter, time and version.
func (x Reports) Quarantine() []Quarantined {
	var list []Quarantined
	x.pusher.queryRollout(func(r *rollout.Rollout) { list = r.Quarantined() })
	slices.SortFunc(list, func(a, b Quarantined) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), a.Suspended.Compare(b.Suspended),
			a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
	return list
}
