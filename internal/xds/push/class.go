package push

import (
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// class is all clients of one Key. Pusher.mu guards it.
type class struct {
	key       view.Key
	producers []*producer // in the order of the generators
	clients   map[*Client]struct{}
	// left is when the last client went; zero while there is one.
	left time.Time
	// world is the newest, nil before the first, made of shelves, which are in the order of the producers.
	world   *stream.World
	shelves []*stream.Shelf
}

// place puts a client in the class of a Key, without the EnvoyFilters that are suspended for it. It makes the class if the
// client is the first there. Pusher.mu is held.
func (p *Pusher) place(c *Client, wanted view.Key) {
	if _, open := p.clients[c]; !open {
		return
	}
	finish := p.joinSuspensions(c, wanted)
	k := p.permitted(wanted)
	if c.unsuspended = nil; k != wanted {
		unsuspended := wanted
		c.unsuspended = &unsuspended
	}
	if c.class == nil || c.class.key != k {
		p.move(c, p.classFor(k))
	}
	finish()
}

// move takes a client from its class, if it has one, to another one, and offers it the World there. Pusher.mu is held.
func (p *Pusher) move(c *Client, cl *class) {
	from := c.class
	moved, waiting := from != nil, false
	if moved {
		cl.inherit(from)
	}
	p.displace(c)
	c.class = cl
	cl.clients[c] = struct{}{}
	if len(cl.clients) == 1 {
		p.revive(cl)
	}
	p.moveVote(c, from, cl)
	for _, pr := range cl.producers {
		if moved && pr.gen.Named != nil { // what it has by name is looked up before it is told what is new
			waiting = p.want(pr, c.subscribed(pr.gen.TypeURL), true) || waiting
		}
	}
	switch {
	case cl.world == nil:
		p.settle(cl)
		return
	case waiting:
		return // the World that is made for it is on its way
	}
	p.turn.proxies++
	c.offer(cl.world, p.turn.changed)
}

// inherit tells producers that have made nothing yet what those of another class serve. Pusher.mu is held.
func (cl *class) inherit(from *class) {
	for i, pr := range cl.producers {
		if old := from.producers[i]; pr.shelf == nil && pr.ancestor == nil && old.shelf != nil {
			pr.ancestor = &ancestor{set: old.shelf.Set(), asked: old.shelf.Asked(), candidates: candidates{
				unconfirmed: old.candidates.unconfirmed, before: maps.Clone(old.candidates.before),
			}}
		}
	}
}

// classFor finds the class of a Key, or makes it. Pusher.mu is held.
func (p *Pusher) classFor(k view.Key) *class {
	cl := p.classes[k]
	if cl == nil {
		cl = &class{key: k, clients: map[*Client]struct{}{}}
		p.classes[k] = cl
		for i := range p.generators {
			pr := p.producer(i, k)
			pr.classes[cl] = struct{}{}
			cl.producers = append(cl.producers, pr)
		}
	}
	return cl
}

// revive has the producers of a class work again that rested while nobody needed them. Pusher.mu is held.
func (p *Pusher) revive(cl *class) {
	cl.left, cl.shelves, cl.world = time.Time{}, nil, nil // what it had may be out of date
	for _, pr := range cl.producers {
		if pr.live++; pr.live == 1 && !pr.todo.empty() {
			p.enqueue(pr, true)
		}
	}
	p.tellQuarantine(cl)
}

// displace takes a client out of its class. The class stays for a time when its last client goes: clients that are gone come
// back as a rule, and often all at once. Its producers rest meanwhile. Pusher.mu is held.
func (p *Pusher) displace(c *Client) {
	cl := c.class
	if cl == nil {
		return
	}
	c.class = nil
	delete(cl.clients, c)
	if len(cl.clients) > 0 {
		return
	}
	cl.left = p.clock.Now()
	for _, pr := range cl.producers {
		pr.live--
	}
	p.tellQuarantine(cl)
}

// abandoned is how long a class stays without a client.
const abandoned = time.Minute

// sweep drops the classes that have been without a client for long. Pusher.mu is held.
func (p *Pusher) sweep(now time.Time) {
	for _, cl := range p.classes {
		if len(cl.clients) == 0 && now.Sub(cl.left) >= abandoned {
			p.drop(cl)
		}
	}
}

// drop lets a class go, with the producers that only it needs. Pusher.mu is held.
func (p *Pusher) drop(cl *class) {
	delete(p.classes, cl.key)
	for _, pr := range cl.producers {
		if delete(pr.classes, cl); len(pr.classes) > 0 {
			continue
		}
		delete(p.producers, pr.producerKey)
		delete(p.gate.making, pr)
		if pr.candidates.watched {
			p.count.candidates[pr.gen.TypeURL].Add(-1)
		}
		p.observe(pr)
		for _, other := range p.producers {
			delete(other.provided, pr)
		}
	}
}

// settle gives a class its new World, if all its producers are done and one of them has made a new Shelf.
// A class one of whose producers failed keeps the World that it has. Pusher.mu is held.
func (p *Pusher) settle(cl *class) {
	if len(cl.clients) == 0 {
		return
	}
	shelves := make([]*stream.Shelf, len(cl.producers))
	for i, pr := range cl.producers {
		shelf, ready := pr.shown()
		if !ready {
			return
		}
		shelves[i] = shelf
	}
	cl.retainEndpoints(shelves)
	if slices.Equal(shelves, cl.shelves) || p.lookAhead(cl, shelves) {
		return
	}
	cl.world = cl.worldOf(shelves)
	cl.shelves = shelves
	for c := range cl.clients {
		p.turn.proxies++
		c.offer(cl.world, p.turn.changed)
	}
}

// worldOf makes a World of Shelves, which are in the order of the producers. What is as it was in the class's World is taken
// from there.
func (cl *class) worldOf(shelves []*stream.Shelf) *stream.World {
	byType, world := map[string][]*stream.Shelf{}, cl.world
	for i, pr := range cl.producers {
		if world == nil || cl.shelves[i] != shelves[i] {
			byType[pr.gen.TypeURL] = nil
		}
	}
	for i, pr := range cl.producers {
		if list, differs := byType[pr.gen.TypeURL]; differs {
			byType[pr.gen.TypeURL] = append(list, shelves[i])
		}
	}
	if world == nil {
		return stream.MakeWorld(stream.Contents{Shelves: byType, EndpointsOf: endpointsOf, ClustersOf: clustersOf})
	}
	for typeURL, list := range byType {
		world = world.With(typeURL, list)
	}
	return world
}

// lookAhead has the endpoints made that follow new clusters, before the clusters are sent. It says whether any were
// missing. Pusher.mu is held.
func (p *Pusher) lookAhead(cl *class, shelves []*stream.Shelf) bool {
	waiting := false
	for i, clusters := range cl.producers {
		if clusters.gen.TypeURL != api.ClusterType || i < len(cl.shelves) && cl.shelves[i] == shelves[i] {
			continue
		}
		for _, endpoints := range cl.producers {
			if endpoints.gen.TypeURL == api.EndpointType {
				waiting = p.provide(clusters, endpoints) || waiting
			}
		}
	}
	return waiting
}

// provide has the endpoints looked up that the newest clusters of a producer need, and says whether any were not yet.
// Pusher.mu is held.
func (p *Pusher) provide(clusters, endpoints *producer) bool {
	done := endpoints.provided[clusters]
	if done == clusters.shelf {
		return false
	}
	if endpoints.provided == nil {
		endpoints.provided = map[*producer]*stream.Shelf{}
	}
	endpoints.provided[clusters] = clusters.shelf
	if done != nil && done == clusters.before {
		return p.want(endpoints, clusters.fresh, true)
	}
	return p.want(endpoints, clusters.needs, true)
}

// wanted gives the names of a type that the clients of a producer's classes subscribe to, and that follow their clusters.
// Pusher.mu is held.
func (p *Pusher) wanted(pr *producer) []string {
	names := []string{}
	seen := map[*string]bool{} // lists are shared by alike clients
	add := func(list []string) {
		if len(list) > 0 && !seen[&list[0]] {
			seen[&list[0]] = true
			names = append(names, list...)
		}
	}
	for cl := range pr.classes {
		for c := range cl.clients {
			add(c.subscribed(pr.gen.TypeURL))
		}
		if pr.gen.TypeURL != api.EndpointType {
			continue
		}
		for _, other := range cl.producers {
			add(other.needs)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// occupied is the number of classes that have clients. Pusher.mu is held.
func (p *Pusher) occupied() int {
	n := 0
	for _, cl := range p.classes {
		if len(cl.clients) > 0 {
			n++
		}
	}
	return n
}

// working is the number of producers that classes with clients need. Pusher.mu is held.
func (p *Pusher) working() int {
	n := 0
	for _, pr := range p.producers {
		if pr.live > 0 {
			n++
		}
	}
	return n
}
