package readapi

import (
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// proxyRow is the row of a stream in lists of proxies.
type proxyRow struct {
	// Proxy has no State and Types unless the proxy rejects something or something is withheld from it.
	// It is shared and must not be modified.
	*Proxy
	state  ProxyState
	stream string // ID, "" for a row of another replica
}

// proxyRowCache keeps the rows of all proxies for all clients, because they look at each stream. What
// does not change while a stream is open, and the order by name, is made again only if another stream
// has been opened or closed.
type proxyRowCache struct {
	mu          sync.Mutex
	made, until time.Time
	rows        []proxyRow // sorted by name

	// streams are the IDs of the streams, and position is where the row of each is.
	streams  []string
	position []int
	// fixed has what does not change of each row.
	fixed []proxyRow
}

// list returns the rows of a and their age, which is 0 if they are new. Rows whose making took at
// least minSharedCost of CPU time are reused for sharedShare times that, at most maxSharedTime. The
// list is shared and must not be modified.
func (c *proxyRowCache) list(a *API) (rows []proxyRow, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := a.Clock.Now()
	if now.Before(c.until) {
		return c.rows, max(now.Sub(c.made), 1)
	}
	cost := cpuTime(func() { c.update(a) })
	if c.made = now; cost >= minSharedCost {
		c.until = a.Clock.Now().Add(min(sharedShare*cost, maxSharedTime))
	}
	return c.rows, 0
}

// update sets c.rows to the present state of each stream, sorted by name. The other columns are
// made again only if the streams have changed, or for proxies that reject or are quarantined, whose
// rows are complete. c.mu must be held.
func (c *proxyRowCache) update(a *API) {
	states, withheld := a.StreamStates(), a.Pages.Withheld()
	if !slices.EqualFunc(states, c.streams, func(s push.StreamState, id string) bool { return s.ID == id }) {
		c.replaceStreams(a, states)
	}
	c.rows = slices.Clone(c.fixed)
	for i, s := range states {
		row := &c.rows[c.position[i]]
		row.state = a.proxyState(s, withheld[s.ID])
		if row.state == ProxyError || row.state == ProxyQuarantined {
			complete := a.completeRow(row, withheld)
			row.Proxy = &complete
		}
	}
}

// replaceStreams recomputes streams, fixed and position from states: a row for each stream, without
// its state, sorted by name. c.mu must be held.
func (c *proxyRowCache) replaceStreams(a *API, states []push.StreamState) {
	type numbered struct {
		proxyRow
		i int
	}
	list := make([]numbered, len(states))
	c.streams = make([]string, len(states))
	for i, s := range states {
		p := a.newProxyRow(s.Proxy, s.ConnectedAt)
		list[i] = numbered{proxyRow{Proxy: &p, stream: s.ID}, i}
		c.streams[i] = s.ID
	}
	slices.SortFunc(list, func(p, q numbered) int { return p.compareNames(&q.proxyRow) })
	c.fixed, c.position = make([]proxyRow, len(list)), make([]int, len(list))
	for at, x := range list {
		c.fixed[at], c.position[x.i] = x.proxyRow, at
	}
}

// completeRow returns all columns of a row as of now. If its stream has ended, or is one of another
// replica, it returns the row as it is.
func (a *API) completeRow(row *proxyRow, withheld map[string][]push.Quarantined) Proxy {
	if row.stream != "" {
		if c, open := a.Connection(row.stream); open {
			return a.newProxy(c, withheld[c.ID])
		}
	}
	p := *row.Proxy
	p.State = row.state
	return p
}

// proxyState returns the state of the proxy of a stream. Only if resources are withheld from it, it
// looks at the details of the stream. Otherwise, and if the stream has ended since, the result
// follows from s.Sync; an unknown value is ProxyError.
func (a *API) proxyState(s push.StreamState, withheld []push.Quarantined) ProxyState {
	if len(withheld) > 0 {
		if c, open := a.Connection(s.ID); open {
			return summaryState(debug.NewSyncStatus(c, withheld))
		}
	}
	switch s.Sync {
	case stream.Synced:
		return ProxySynced
	case stream.NotSent:
		return ProxyNotSent
	case stream.Outdated:
		return ProxyStale
	default:
		return ProxyError
	}
}
