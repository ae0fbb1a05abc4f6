package push

import (
	"maps"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// clientTable contains all open streams by their rollout handle and by their ID.
type clientTable struct {
	mu      sync.Mutex
	clients map[*rollout.Client]*Client
	byID    map[string]*Client
	// list has all clients; nil if it must be made again.
	list []*Client
	ids  uint64
}

// newClientTable returns a table without clients.
func newClientTable() *clientTable {
	return &clientTable{clients: map[*rollout.Client]*Client{}, byID: map[string]*Client{}}
}

// nextID returns a number that is unique among all streams.
func (t *clientTable) nextID() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids++
	return t.ids
}

// add adds an open stream, to be found by its handle and by its ID, and invalidates the cached
// list.
func (t *clientTable) add(c *Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients[&c.handle], t.byID[c.id], t.list = c, c, nil
}

// remove removes a stream and reports whether it was in the table.
func (t *clientTable) remove(c *Client) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, open := t.clients[&c.handle]
	delete(t.clients, &c.handle)
	delete(t.byID, c.id)
	t.list = nil
	return open
}

// all returns the open streams in unspecified order. The list is shared and must not be modified.
func (t *clientTable) all() []*Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = slices.AppendSeq(make([]*Client, 0, len(t.clients)), maps.Values(t.clients))
	}
	return t.list
}

// find returns the stream with this ID, or nil.
func (t *clientTable) find(id string) *Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// get returns the stream of a handle, or nil if the stream has ended.
func (t *clientTable) get(handle *rollout.Client) *Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[handle]
}

// deliverOffer puts o into the mailbox of each open stream in to (setOffer). It replaces an offer
// that was not taken yet, whose changes are kept. Streams that have ended are skipped. It returns
// how many of the open streams in to had been offered nothing of this turn before.
func (t *clientTable) deliverOffer(o *offer, to []*rollout.Client, turn uint64) (offered int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, handle := range to {
		c := t.clients[handle]
		if c == nil {
			continue
		}
		if c.turn != turn {
			c.turn = turn
			offered++
		}
		c.setOffer(o)
	}
	return offered
}

// findAcknowledged returns the client of the first candidate whose proxy subscribes to the
// candidate's resource and has acknowledged this version of it. It returns nil if there is none.
func (t *clientTable) findAcknowledged(candidates []rollout.Acknowledgement) *rollout.Client {
	for _, x := range candidates {
		if c := t.get(x.Client); c != nil && c.hasAcknowledged(x.Resource) {
			return x.Client
		}
	}
	return nil
}
