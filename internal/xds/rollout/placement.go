package rollout

import (
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// classIdleTimeout is how long a class without clients is kept, with its generators paused.
// Disconnected proxies usually reconnect, often all at once.
const classIdleTimeout = time.Minute

// placeClient moves a client to the class of the Key wanted, from which it removes the EnvoyFilters
// that are suspended for it. If that alters the Key, c.wanted keeps the original, otherwise
// c.wanted is nil. It also makes the client a member of the suspensions for wanted
// (joinSuspensions), even if its class stays the same. It does nothing if the client has
// disconnected.
func (r *Rollout) placeClient(c *Client, wanted view.Key) {
	if !r.isConnected(c) {
		return
	}
	r.joinSuspensions(c, wanted)
	k := r.withoutSuspended(wanted)
	if c.wanted = nil; k != wanted {
		unsuspended := wanted
		c.wanted = &unsuspended
	}
	if c.class == nil || c.class.key != k {
		r.moveClient(c, r.classFor(k))
	}
}

// placeMoving places again the clients in r.moving, whose suspended EnvoyFilters have changed, and
// empties r.moving. Clients without a class are skipped.
func (r *Rollout) placeMoving() {
	for c := range r.moving {
		delete(r.moving, c)
		if c.class != nil {
			r.placeClient(c, c.unsuspendedKey())
		}
	}
}

// moveClient moves a client and its vote to a class, resumes paused generators of the class, and
// offers the client the class's ResourceSnapshot. If the class has none, it schedules the
// composition instead. A client of another class may subscribe to names that must be generated
// first: it requests these, and the class's next ResourceSnapshot is offered. The resources that
// the previous class served become the ancestor of new producers (inheritServed).
func (r *Rollout) moveClient(c *Client, to *class) {
	from := c.class
	if from != nil {
		to.inheritServed(from)
	}
	r.removeFromClass(c)
	c.class = to
	to.clients[c] = struct{}{}
	if len(to.clients) == 1 {
		r.resumeGenerators(to)
	}
	r.moveVote(c, from, to)
	waiting := false
	for _, pr := range to.producers {
		if from != nil && pr.gen.Named != nil {
			waiting = r.wantNames(pr, c.subscribedNames(pr.gen.TypeURL), true) || waiting
		}
	}
	switch {
	case to.resources == nil:
		r.composing[to] = struct{}{}
	case !waiting:
		r.offerResources(Offer{Clients: []*Client{c}, Resources: to.resources, Turn: r.turnOf(to)})
	}
}

// inheritServed copies what from serves into the ancestor of each of cl's producers that has
// neither a Product nor an ancestor. New Products are then compared with it. Both classes must have
// the same generators.
func (cl *class) inheritServed(from *class) {
	for i, pr := range cl.producers {
		if old := from.producers[i]; pr.group == nil && pr.ancestor == nil && old.group != nil {
			pr.ancestor = &ancestor{old.group.Set(), old.group.LookedUpNames(), old.candidates.clone()}
		}
	}
}

// classFor returns the class of a Key. If there is none, it makes and registers one, with the
// producers that it needs, new ones if necessary, and without clients.
func (r *Rollout) classFor(k view.Key) *class {
	cl := r.classes[k]
	if cl == nil {
		cl = &class{key: k, clients: map[*Client]struct{}{}}
		r.classes[k] = cl
		for i := range r.options.Generators {
			pr := r.producerFor(i, k)
			pr.classes[cl] = struct{}{}
			cl.producers = append(cl.producers, pr)
		}
	}
	return cl
}

// resumeGenerators increments the live count of each producer of a class that has got its first
// client, and enqueues pending tasks of producers that were paused. It discards the class's
// ResourceSnapshot, which may be outdated.
func (r *Rollout) resumeGenerators(cl *class) {
	cl.left, cl.groups, cl.resources = time.Time{}, nil, nil
	for _, pr := range cl.producers {
		if pr.live++; pr.live == 1 && !pr.pending.isEmpty() {
			r.enqueueTask(pr, true)
		}
	}
	r.recountIfQuarantined(cl)
}

// removeFromClass detaches a client from its class and does nothing if it has none. With the last
// client the class's producers pause, unless another class uses them. A class without clients is
// kept for classIdleTimeout.
func (r *Rollout) removeFromClass(c *Client) {
	cl := c.class
	if cl == nil {
		return
	}
	c.class = nil
	delete(cl.clients, c)
	if len(cl.clients) > 0 {
		return
	}
	cl.left = r.now
	for _, pr := range cl.producers {
		pr.live--
	}
	r.recountIfQuarantined(cl)
}

// recountIfQuarantined sets r.recount, so that quarantined resources are counted again, if the
// class has any.
func (r *Rollout) recountIfQuarantined(cl *class) {
	if slices.ContainsFunc(
		cl.producers,
		func(pr *producer) bool { return pr.votes != nil && len(pr.votes.inForce) > 0 },
	) {
		r.recount = true
	}
}

// addClient adds a connected client and places it in its class. Before the first snapshot, or if
// its Key cannot be computed, the client stays without a class. Its addresses are indexed in any
// case.
func (r *Rollout) addClient(c *Client) {
	r.clients[c] = struct{}{}
	for _, a := range c.Proxy.Addresses {
		if r.addresses[a] == nil {
			r.addresses[a] = map[*Client]struct{}{}
		}
		r.addresses[a][c] = struct{}{}
	}
	if r.snapshot != nil {
		if key, ok := r.keyFor(c.Proxy); ok {
			r.placeClient(c, key)
		}
	}
}

// removeClient removes a disconnected client from the Rollout, from its class and suspensions, and
// its vote from its producers. The barrier and the mutual TLS transition no longer wait for it.
func (r *Rollout) removeClient(c *Client) {
	delete(r.clients, c)
	for _, a := range c.Proxy.Addresses {
		if delete(r.addresses[a], c); len(r.addresses[a]) == 0 {
			delete(r.addresses, a)
		}
	}
	from := c.class
	r.removeFromClass(c)
	r.moveVote(c, from, nil)
	r.leaveSuspensions(c)
	r.barrier.removeClient(c)
	r.transition.removeClient(c)
}

// removeIdle removes classes and suspensions that have been without clients for classIdleTimeout.
// It also removes candidates from watched producers if their resources no longer exist.
func (r *Rollout) removeIdle() {
	for _, cl := range r.classes {
		if len(cl.clients) == 0 && r.now.Sub(cl.left) >= classIdleTimeout {
			r.removeClass(cl)
		}
	}
	for _, pr := range r.producers {
		if pr.candidates.watched {
			pr.candidates.removeMissing(pr.set)
			r.watchCandidates(pr)
		}
	}
	for k, s := range r.suspensions {
		if len(s.members) == 0 && r.now.Sub(s.left) >= classIdleTimeout {
			delete(r.suspensions, k)
		}
	}
}

// removeClass removes a class, and the producers that no other class uses. The barrier no longer
// waits for these producers, and their candidates and votes are no longer observed.
func (r *Rollout) removeClass(cl *class) {
	delete(r.classes, cl.key)
	for _, pr := range cl.producers {
		if delete(pr.classes, cl); len(pr.classes) > 0 {
			continue
		}
		delete(r.producers, pr.producerKey)
		delete(r.everyChange, pr)
		r.barrier.removeProducer(pr)
		r.watchCandidates(pr)
		r.trackVotes(pr)
		for _, other := range r.producers {
			delete(other.followed, pr)
		}
	}
}
