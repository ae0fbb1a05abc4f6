package rollout

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// mergeSnapshot merges a snapshot and its Delta into the inbox. A snapshot with an empty Delta is
// ignored, except the first, which changes everything.
func (r *Rollout) mergeSnapshot(e Published) {
	d := e.Delta
	if r.snapshot == nil {
		d.All = true
	}
	if d.Empty() {
		return
	}
	if r.inbox.snapshot == nil {
		r.inbox.first = e.First
	}
	r.inbox.snapshot, r.inbox.last = e.Snapshot, e.Last
	r.inbox.delta.Merge(d)
}

// isTurnDue reports whether a turn must begin now: a snapshot was published, its debounce time has
// passed, and no turn is active.
func (r *Rollout) isTurnDue() bool {
	return !r.turn.active && r.inbox.snapshot != nil &&
		!r.options.Debounce.dueTime(r.inbox.gathering(), r.turn.last).After(r.now)
}

// gathering describes the publications in the inbox for the debounce.
func (in inbox) gathering() gathering { return gathering{in.first, in.last, in.delta.EndpointsOnly()} }

// beginTurn brings everything up to the published snapshot: it moves clients whose Key has changed
// to other classes, and schedules the generators that the change touches. It sets the barrier if
// servers must be updated first, and ends suspensions of changed EnvoyFilters.
func (r *Rollout) beginTurn() {
	in, old := r.inbox, r.snapshot
	r.inbox = inbox{}
	r.snapshot = in.snapshot
	r.turn = turn{active: true, inbox: in, began: r.now, waiting: map[*producer]struct{}{}, last: r.turn.last}
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
	for _, pr := range r.producers {
		r.updateProducer(pr, in.delta)
	}
}

// replaceClient places a client whose Key may have changed. If its inbound configuration changes,
// the barrier awaits it. A client whose Key cannot be computed keeps its class and is tried again
// in the next turn.
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
	r.placeClient(c, r.transitionKey(c, old, k))
}

// affectedClients returns the clients whose Key a change may have altered. A change of endpoints
// alone alters only Keys of proxies at the addresses that it names; a client may be listed twice
// then. Clients without a class or Key are always included otherwise.
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

// updateProducer schedules a producer's generator if the change touches its Product, or if it is
// busy or failed before. If the Product is about what proxies serve, the barrier awaits it.
// Otherwise the producer's View only moves to the new snapshot. Names that are no longer needed are
// dropped when they are the majority.
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

// neededNames returns the names that clients of a producer subscribe to, and the names of endpoints
// that follow clusters.
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

// endTurn ends the turn if all of its producers are done: it emits TurnEnded and records the turn's
// duration for the debounce. Otherwise, and without an active turn, it only forgets the finished
// producers.
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
	took := r.now.Sub(t.began)
	r.emitAction(TurnEnded{
		Snapshot: t.inbox.snapshot.Version, Gathered: t.began.Sub(t.inbox.first), Took: took,
		Triggers: changeKinds(t.inbox.delta), Proxies: t.proxies, Classes: r.countClasses(),
	})
	r.turn = turn{last: lastTurn{ended: r.now, took: took, proxies: t.proxies}}
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

// changeKinds names the kinds of change in a Delta as istiod's push triggers: global, service,
// config, endpoint, proxyupdate.
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
