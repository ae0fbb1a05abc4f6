package push

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Reach is how far what an object says has come.
type Reach struct {
	// Proxies are those that are served something that the object shapes, Acknowledged those of them that have taken all of it.
	Proxies, Acknowledged int
}

// Distribution is how far some objects have come.
type Distribution struct {
	// Snapshot is the version of the newest snapshot that all proxies are served by now.
	Snapshot uint64
	// Reach has those of the objects that shape anything that proxies are served.
	Reach map[config.Key]Reach
}

// Distribution counts who has what some objects shape. Nothing is counted while proxies are served: it costs a look at the origin of
// each different resource, and at each proxy; so it is for some objects, now and then.
func (p *Pusher) Distribution(objects map[config.Key]struct{}) Distribution {
	d := Distribution{Snapshot: p.count.snapshot.Load(), Reach: map[config.Key]Reach{}}
	if len(objects) == 0 {
		return d
	}
	found := map[*resource.Set]shaped{}
	for _, m := range p.members() {
		of := map[config.Key][]*resource.Resource{}
		for _, set := range m.sets {
			s, known := found[set]
			if !known {
				s = shapedBy(set, objects)
				found[set] = s
			}
			for k, list := range s {
				of[k] = append(of[k], list...)
			}
		}
		if len(of) > 0 {
			m.count(of, d.Reach)
		}
	}
	return d
}

// shaped is the resources of a set that objects shape.
type shaped map[config.Key][]*resource.Resource

func shapedBy(set *resource.Set, objects map[config.Key]struct{}) shaped {
	s := shaped{}
	for _, r := range set.List() {
		for _, k := range r.From {
			if _, asked := objects[k]; asked {
				s[k] = append(s[k], r)
			}
		}
	}
	return s
}

// members is the proxies of a class, and what they are to have.
type members struct {
	clients []*Client
	sets    []*resource.Set
	// world is what they are offered; nil: not all of that is in it yet.
	world *stream.World
}

func (p *Pusher) members() []members {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]members, 0, len(p.classes))
	for _, cl := range p.classes {
		if len(cl.clients) == 0 {
			continue
		}
		m := members{clients: make([]*Client, 0, len(cl.clients)), world: cl.world}
		for c := range cl.clients {
			m.clients = append(m.clients, c)
		}
		for i, pr := range cl.producers {
			if pr.shelf == nil {
				m.world = nil
				continue
			}
			m.sets = append(m.sets, pr.shelf.Set())
			if i >= len(cl.shelves) || cl.shelves[i] != pr.shelf { // the gate holds it back, or others are not done
				m.world = nil
			}
		}
		list = append(list, m)
	}
	return list
}

// count adds those who are to have some resources, and those who have them.
func (m members) count(of map[config.Key][]*resource.Resource, to map[config.Key]Reach) {
	all := 0 // have taken everything
	var behind []*Client
	for _, c := range m.clients {
		if c.tookAll(m.world) {
			all++
		} else {
			behind = append(behind, c)
		}
	}
	for k, list := range of {
		r := to[k]
		r.Proxies += len(m.clients)
		r.Acknowledged += all
		for _, c := range behind {
			if c.has(list) {
				r.Acknowledged++
			}
		}
		to[k] = r
	}
}

// tookAll says that the client has acknowledged all of a World.
func (c *Client) tookAll(w *stream.World) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w != nil && c.world == w && c.machine.TookAll()
}

// has says that the client has acknowledged all of the resources that it asked for.
func (c *Client) has(list []*resource.Resource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range list {
		if !c.machine.Has(r.TypeURL, r) {
			return false
		}
	}
	return true
}
