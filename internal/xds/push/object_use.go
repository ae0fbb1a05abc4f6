package push

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// ObjectUse is a proxy that is served resources generated from an object.
type ObjectUse struct {
	// ID is the stream's ID (see Connection).
	ID    string
	Proxy *mesh.Proxy
	// Resources are the resources that the proxy subscribes to. Behind lists which of them it has
	// not acknowledged, and Since is since when, as in ProxyBehind.
	Resources []*resource.Resource
	Behind    []ResourceBehind
	Since     time.Time
}

// ObjectUses returns the connected proxies that subscribe to resources generated from the object
// and served to their class, sorted by the ID of their stream. It returns nil if there are none. It
// waits for the rollout, and costs as much as Distribution for one object.
func (x Reports) ObjectUses(object config.Key) []ObjectUse {
	var members []rollout.Members
	x.pusher.queryRollout(func(r *rollout.Rollout) { members = r.Members() })
	t := x.TrackObject(object, 0)
	found := map[*resource.Set][]*resource.Resource{}
	var uses []ObjectUse
	for _, m := range members {
		list := t.resourcesOf(m, found)
		for _, handle := range m.Clients {
			c := x.pusher.clients.get(handle)
			if c == nil { // the stream has ended
				continue
			}
			if u := c.useOf(list); len(u.Resources) > 0 {
				uses = append(uses, u)
			}
		}
	}
	slices.SortFunc(uses, func(a, b ObjectUse) int { return cmp.Compare(a.ID, b.ID) })
	return uses
}

// useOf returns which resources of the list the proxy subscribes to, which of them it has not
// acknowledged, rejected ones included, and since when the first is missing (behindSince). Clusters
// and listeners that it has not requested yet may count as subscribed (stream.Machine.DeliveryOf).
// Behind and Since are zero if it has acknowledged all. c.mu must not be held.
func (c *Client) useOf(list []*resource.Resource) ObjectUse {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := ObjectUse{ID: c.id, Proxy: c.node}
	for _, r := range list {
		state := c.machine.DeliveryOf(r)
		if state == stream.Unsubscribed {
			continue
		}
		u.Resources = append(u.Resources, r)
		if state == stream.Acknowledged {
			continue
		}
		b := ResourceBehind{TypeURL: r.TypeURL, Name: r.Name, State: state}
		if state == stream.Rejected {
			b.Message = c.machine.Message(r.TypeURL)
		}
		u.Behind = append(u.Behind, b)
	}
	u.Since = c.behindSince(u.Behind)
	return u
}

// Deliveries returns how far each resource of a list has come on the stream with this ID, in the
// order of the list. It returns nil if there is no such stream (any more).
func (x Reports) Deliveries(id string, list []*resource.Resource) []stream.Delivery {
	c := x.pusher.clients.find(id)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make([]stream.Delivery, len(list))
	for i, r := range list {
		states[i] = c.machine.DeliveryOf(r)
	}
	return states
}
