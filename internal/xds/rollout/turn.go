package rollout

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// mergeSnapshot merges a snapshot and its Delta into the inbox for the next turn. A snapshot with
// an empty Delta begins no turn, except the first, which changes everything. Its version is
// recorded as served as soon as the snapshot before it is. The first snapshot that a turn gathers
// sets its beginning.
func (r *Rollout) mergeSnapshot(e Published) {
	d := e.Delta
	if r.snapshot == nil {
		d.All = true
	}
	if d.Empty() {
		switch version := e.Snapshot.Version; {
		case r.inbox.snapshot != nil:
			r.inbox.newest = version
		case r.turn.active:
			r.turn.inbox.newest = version
		default:
			r.served = version
		}
		return
	}
	if r.inbox.snapshot == nil {
		r.inbox.first = e.First
	}
	r.inbox.snapshot, r.inbox.newest, r.inbox.last = e.Snapshot, e.Snapshot.Version, e.Last
	r.inbox.delta.Merge(d)
}

// isTurnDue reports whether a turn must begin now: a snapshot was published, its debounce time has
// passed, and no turn is active.
func (r *Rollout) isTurnDue() bool {
	return !r.turn.active && r.inbox.snapshot != nil &&
		!r.options.Debounce.dueTime(r.inbox.gathering(), r.turn.last).After(r.now)
}

// gathering returns the times of the first and last publication in the inbox and whether only
// endpoints changed, for the debounce.
func (in inbox) gathering() gathering { return gathering{in.first, in.last, in.delta.EndpointsOnly()} }

// beginTurn makes the published snapshot the current one, starts a turn and emits TurnBegan. It
// moves clients whose Key has changed to other classes, and schedules the generators that the
// change touches. It sets the barrier if servers must be updated first, and ends suspensions of
// changed EnvoyFilters.
func (r *Rollout) beginTurn() {
	in, old := r.inbox, r.snapshot
	r.inbox = inbox{}
	r.snapshot = in.snapshot
	r.turn = turn{
		active: true, inbox: in, began: r.now, waiting: map[*producer]struct{}{}, last: r.turn.last,
		number: r.turn.number + 1, resources: map[string]int{},
	}
	r.emitAction(TurnBegan{
		Turn: r.turn.number, Snapshot: in.snapshot, Before: old, Delta: in.delta, Published: in.first,
	})
	r.forgetChangedFilters()
	others := r.findOtherProxies(old, in.delta)
	if others.callsChange {
		r.holdClients(holdEndpoints)
		r.barrier.othersAffected = true
	}
	for _, c := range r.affectedClients(in.delta, r.keyMoves(old, in.delta)) {
		r.replaceClient(c, old)
	}
	r.transition.waitForOthers(r.now, others.exist, r.barrier.level == holdEndpoints)
	r.updateProducers(in.delta)
	r.orderQueue()
}

// updateProducers calls updateProducer for all producers, or for a change that alters only EDS for
// those in r.everyChange. Inbound configuration has a producer for nearly each proxy, so these are a
// small part of all.
func (r *Rollout) updateProducers(d snapshot.Delta) {
	if d.AltersOnlyEDS() {
		for pr := range r.everyChange {
			r.updateProducer(pr, d)
		}
		return
	}
	for _, pr := range r.producers {
		r.updateProducer(pr, d)
	}
}

// replaceClient computes the client's Key again and updates its mutual TLS transition
// (updateTransition); old is the previous snapshot. It places the client in the class of the
// resulting Key. If its inbound configuration changes, the barrier waits for it. A client whose Key
// cannot be computed keeps its class and is tried again in the next turn.
func (r *Rollout) replaceClient(c *Client, old *snapshot.Snapshot) {
	k, ok := r.keyFor(c.Proxy)
	c.unkeyed = !ok
	if !ok {
		return
	}
	if c.class != nil && c.class.key.Inbound != k.Inbound {
		r.holdClients(holdConfiguration)
		r.barrier.awaitServer(c)
	}
	r.placeClient(c, r.updateTransition(c, old, k))
}

// affectedClients returns the clients whose Key the change d may have altered: clients without a
// class or Key, and clients for which moves returns true. A change of endpoints alone affects only
// proxies at the addresses that it names. Then clients without a class are not included, and a
// client may be listed twice.
func (r *Rollout) affectedClients(d snapshot.Delta, moves func(*mesh.Proxy) bool) (list []*Client) {
	if !d.EndpointsOnly() {
		for c := range r.clients {
			if c.class == nil || c.unkeyed || moves(c.Proxy) {
				list = append(list, c)
			}
		}
		return list
	}
	for _, addresses := range []map[netip.Addr]struct{}{d.Workloads, d.Served} {
		for a := range addresses {
			for c := range r.addresses[a] {
				list = append(list, c)
			}
		}
	}
	return list
}

// updateProducer schedules the producer's generator if d touches its Product, or if it is busy or
// has failed. Otherwise only its View moves to the new snapshot; the View stays too if only
// endpoints changed or the producer has pending work. If the producer is to be scheduled and makes
// inbound configuration for connected clients, the barrier waits for it. If its looked-up names
// have more than doubled since they were last pruned, its next run keeps only the needed names.
// Without connected clients the change only stays pending.
func (r *Rollout) updateProducer(pr *producer, d snapshot.Delta) {
	if !pr.busy && !pr.failed && !r.isTouched(pr, d) {
		if !d.EndpointsOnly() &&
			pr.pending.isEmpty() { // otherwise it is paused, or the snapshots share most of their rows
			pr.view = pr.view.WithSnapshot(r.snapshot)
		}
		return
	}
	if pr.gen.Inbound && pr.live > 0 && pr.group != nil {
		r.holdClients(holdConfiguration)
		r.barrier.awaitGenerator(pr)
	}
	pr.pending.delta.Merge(d)
	if pr.live > 0 && pr.gen.Named != nil && !d.EndpointsOnly() && pr.group != nil &&
		len(pr.group.LookedUpNames()) > 2*pr.pruned+64 {
		pr.pending.keep = pr.neededNames()
		pr.pruned = len(pr.pending.keep)
	}
	r.enqueueTask(pr, true)
}

// neededNames returns the names that clients of the producer subscribe to, sorted and without
// duplicates. For endpoints it adds the names that the classes' clusters need. It is never nil.
func (pr *producer) neededNames() []string {
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
			add(c.subscribedNames(pr.gen.TypeURL))
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

// endTurn ends the active turn if all of its producers are done. It emits TurnEnded, updates the
// served version, and records the turn's duration for the debounce. Otherwise, or without an active
// turn, it only removes finished producers from the list that the turn waits for.
func (r *Rollout) endTurn() {
	for _, pr := range r.turn.finished {
		if !pr.busy { // otherwise there is more for it to do
			delete(r.turn.waiting, pr)
		}
	}
	r.turn.finished = r.turn.finished[:0]
	if !r.turn.active || len(r.turn.waiting) > 0 {
		return
	}
	t := r.turn
	r.served = t.inbox.newest
	took := r.now.Sub(t.began)
	r.emitAction(TurnEnded{
		Turn: t.number, Snapshot: t.inbox.snapshot.Version, Gathered: t.began.Sub(t.inbox.first), Took: took,
		Triggers: changeKinds(t.inbox.delta), Proxies: t.proxies, Classes: r.countClasses(), Resources: t.resources,
	})
	r.turn = turn{last: lastTurn{ended: r.now, took: took, proxies: t.proxies}, number: t.number}
}

// countClasses returns the number of classes with clients.
func (r *Rollout) countClasses() (n int) {
	for _, cl := range r.classes {
		if len(cl.clients) > 0 {
			n++
		}
	}
	return n
}

// changeKinds returns the kinds of change in a Delta by the names of istiod's push triggers:
// global, service, config, endpoint, proxyupdate. It returns nil for none of these.
func changeKinds(d snapshot.Delta) (list []string) {
	if d.All {
		list = append(list, "global")
	}
	if len(d.Services) > 0 {
		list = append(list, "service")
	}
	if len(d.Configs) > 0 {
		list = append(list, "config")
	}
	if len(d.Endpoints) > 0 {
		list = append(list, "endpoint")
	}
	if len(d.Workloads) > 0 {
		list = append(list, "proxyupdate")
	}
	return list
}
