package push

import (
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Subscription is the secrets that one stream asks for.
type Subscription struct {
	// Stream is the ID of the Client.
	Stream string
	Proxy  *mesh.Proxy
	// Names are sorted SDS names, none at first. The list must not be changed.
	Names []string
	// Ended says that the stream has ended.
	Ended bool
}

// subscription is what was last told of a stream.
type subscription struct {
	mu    sync.Mutex
	names []string
	ended bool
}

// tell tells of what a stream asks for, if it asks for other secrets since this request.
func (c *Client) tell(e stream.Event) {
	r, ok := e.(stream.Request)
	if !ok || r.TypeURL != api.SecretType || c.p.secrets == nil {
		return
	}
	names := c.subscribed(api.SecretType)
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	if c.told.ended || slices.Equal(names, c.told.names) {
		return
	}
	c.told.names = names
	c.p.secrets(Subscription{Stream: c.id, Proxy: c.proxy, Names: names})
}

// tellBegin tells that there is the stream.
func (c *Client) tellBegin() {
	if c.p.secrets != nil {
		c.p.secrets(Subscription{Stream: c.id, Proxy: c.proxy})
	}
}

// tellEnd tells that the stream has ended.
func (c *Client) tellEnd() {
	if c.p.secrets == nil {
		return
	}
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	c.told.ended = true
	c.p.secrets(Subscription{Stream: c.id, Proxy: c.proxy, Ended: true})
}
