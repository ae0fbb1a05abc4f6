package push

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// clientTable contains all open streams by their rollout handle.
type clientTable struct {
	mu      sync.Mutex
	clients map[*rollout.Client]*Client
	ids     uint64
}

func newClientTable() *clientTable { return &clientTable{clients: map[*rollout.Client]*Client{}} }

// nextID returns a number that is unique among all streams.
func (t *clientTable) nextID() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids++
	return t.ids
}

// add adds an open stream under its handle.
func (t *clientTable) add(c *Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients[&c.handle] = c
}

// remove removes a stream and reports whether it was in the table.
func (t *clientTable) remove(c *Client) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, open := t.clients[&c.handle]
	delete(t.clients, &c.handle)
	return open
}

// all returns the open streams in unspecified order.
func (t *clientTable) all() []*Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*Client, 0, len(t.clients))
	for _, c := range t.clients {
		list = append(list, c)
	}
	return list
}

// find returns the stream with this ID, or nil.
func (t *clientTable) find(id string) *Client {
	for _, c := range t.all() {
		if c.id == id {
			return c
		}
	}
	return nil
}

// get returns the stream of a handle, or nil if the stream has ended.
func (t *clientTable) get(handle *rollout.Client) *Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[handle]
}

// deliverOffer puts o into the mailbox of each open stream in to, in place of an offer that was not
// taken yet. Streams that have ended are skipped. It returns how many of the open streams in to had
// been offered nothing of this turn before.
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
