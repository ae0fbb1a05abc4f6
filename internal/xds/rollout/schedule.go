package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// producerFor returns the producer of a generator (an index of Options.Generators) for the scope of
// Key k. If there is none, it makes one, which generates everything as soon as its class has a
// client.
func (r *Rollout) producerFor(generator int, k view.Key) *producer {
	gen := &r.options.Generators[generator]
	key := producerKey{generator, scopeOf(gen, k)}
	pr := r.producers[key]
	if pr == nil {
		pr = &producer{gen: gen, producerKey: key, classes: map[*class]struct{}{}}
		pr.pending.delta.All = true // runs when its class has a client
		r.producers[key] = pr
	}
	return pr
}

// enqueueTask queues a producer for its pending task. If ofTurn is set, the active turn, if any,
// waits for it; names that clients request during the turn do not delay it. It does nothing if no
// class with clients needs the producer. A producer that is queued or running is not queued again.
func (r *Rollout) enqueueTask(pr *producer, ofTurn bool) {
	if pr.live == 0 {
		return
	}
	if ofTurn && r.turn.active {
		r.turn.waiting[pr] = struct{}{}
	}
	if !pr.busy {
		pr.busy = true
		r.indexProducer(pr)
		r.queue = append(r.queue, pr)
	}
}

// orderQueue orders the queue so that classes become complete one after the other: the producers of
// a class follow each other, in push order. So the first clients are offered the change after a few
// generators. In any other order, all classes may wait for a producer that they share. Classes with
// a queued producer of inbound configuration come first, because the server-first barrier holds back
// the others until the proxies of these classes have acknowledged it.
func (r *Rollout) orderQueue() {
	ordered := make([]*producer, 0, len(r.queue))
	place := func(pr *producer) {
		if pr.unordered {
			pr.unordered = false
			ordered = append(ordered, pr)
		}
	}
	for _, pr := range r.queue {
		pr.unordered = true
	}
	for _, inbound := range []bool{true, false} {
		for _, pr := range r.queue {
			if pr.gen.Inbound != inbound || !pr.unordered {
				continue
			}
			for _, other := range pr.neighbors() {
				place(other)
			}
			place(pr) // if no class with clients uses it any more
		}
	}
	r.queue = ordered
}

// wantNames adds the names that were not generated yet to the producer's pending task and enqueues
// it (enqueueTask, also for ofTurn). names must be sorted. It returns true if there are any: then a
// new ResourceGroup will follow. Otherwise it changes nothing.
func (r *Rollout) wantNames(pr *producer, names []string, ofTurn bool) bool {
	if pr.group != nil {
		names = stream.SubtractNames(names, pr.group.LookedUpNames())
	}
	if len(names) == 0 {
		return false
	}
	pr.pending.names = stream.MergeNames(pr.pending.names, names)
	r.enqueueTask(pr, ofTurn)
	return true
}

// dispatchJobs emits Generate for queued producers, first in first out, while fewer than MaxJobs
// run. A job takes everything that was added to the producer's task while it was queued, and uses
// the current snapshot. A producer that no client needs any more is finished instead (finishTask)
// and keeps its task.
func (r *Rollout) dispatchJobs() {
	for len(r.queue) > 0 && r.running < r.options.MaxJobs {
		pr := r.queue[0]
		r.queue[0] = nil
		if r.queue = r.queue[1:]; len(r.queue) == 0 {
			r.queue = nil
		}
		if pr.live == 0 {
			r.finishTask(pr)
			continue
		}
		job := &Job{producer: pr, task: pr.pending, old: pr.Product, snapshot: r.snapshot, classes: len(pr.classes)}
		pr.pending = task{}
		r.running++
		r.emitAction(Generate{job})
	}
}

// finishTask records that a producer is neither queued nor generating any more. It informs the
// server-first barrier and schedules the composition of the classes that use the producer.
func (r *Rollout) finishTask(pr *producer) {
	pr.busy = false
	r.indexProducer(pr)
	r.turn.finished = append(r.turn.finished, pr)
	r.barrier.finishGenerating(pr)
	r.composeLater(pr)
}

// finishOrRequeue queues a producer again if work was added to its task while its generator ran. If
// there is none, or the generator failed, it calls finishTask.
func (r *Rollout) finishOrRequeue(pr *producer) {
	if pr.failed || pr.pending.isEmpty() {
		r.finishTask(pr)
		return
	}
	r.queue = append(r.queue, pr)
}

// failJob keeps the old Product of a producer whose generator panicked. The generator runs again,
// from scratch, when the next change or name is added to its task.
func (r *Rollout) failJob(j *Job) {
	r.running--
	pr := j.producer
	pr.failed = true
	pr.pending.delta.All = true
	pr.pending.names = stream.MergeNames(pr.pending.names, j.task.names)
	r.finishOrRequeue(pr)
}

// followClusters requests the endpoints that new clusters need, so that these are generated before
// the clusters are sent. groups are the ResourceGroups of the next ResourceSnapshot of cl; it skips
// groups that cl has already. It reports whether any endpoints were not generated yet. Only the
// groups of clusters are read.
func (r *Rollout) followClusters(cl *class, groups []*stream.ResourceGroup) bool {
	missing := false
	for i, clusters := range cl.producers {
		if clusters.gen.TypeURL != api.ClusterType || i < len(cl.groups) && cl.groups[i] == groups[i] {
			continue
		}
		for _, endpoints := range cl.producers {
			if endpoints.gen.TypeURL == api.EndpointType {
				missing = r.requestEndpoints(clusters, endpoints) || missing
			}
		}
	}
	return missing
}

// requestEndpoints requests from the producer endpoints the endpoints of all clusters of the
// producer clusters, or only of its added clusters if the previous ResourceGroup was handled. It
// reports whether any were not generated yet. For a ResourceGroup that was handled before, it does
// nothing and returns false.
func (r *Rollout) requestEndpoints(clusters, endpoints *producer) bool {
	done := endpoints.followed[clusters]
	if done == clusters.group {
		return false
	}
	if endpoints.followed == nil {
		endpoints.followed = map[*producer]*stream.ResourceGroup{}
	}
	endpoints.followed[clusters] = clusters.group
	if done != nil && done == clusters.before {
		return r.wantNames(endpoints, clusters.added, true)
	}
	return r.wantNames(endpoints, clusters.needs, true)
}

// composeAllResources calls composeResources for each class in r.composing that has clients, and
// clears r.composing.
func (r *Rollout) composeAllResources() {
	for cl := range r.composing {
		delete(r.composing, cl)
		if len(cl.clients) > 0 {
			r.composeResources(cl)
		}
	}
}

// composeResources composes the class's next ResourceSnapshot and offers it to all clients of the
// class. It offers nothing if a producer is not ready (groupToServe, retainEndpoints), endpoints of
// new clusters are missing, or the ResourceGroups are unchanged. The class then keeps its current
// ResourceSnapshot. If the barrier holds back a group during a turn, heldTurn of the class is set
// to the turn. An offer without held groups clears it.
func (r *Rollout) composeResources(cl *class) {
	var room [32]*stream.ResourceGroup
	groups, held := room[:0], false
	for _, pr := range cl.producers {
		group, ready := r.barrier.groupToServe(pr)
		if !ready {
			return
		}
		groups = append(groups, group)
		held = held || group != pr.group
	}
	if !r.barrier.retainEndpoints(cl, groups) {
		return
	}
	if held && r.turn.active {
		cl.heldTurn = r.turn.number
	}
	if cl.hasGroups(groups) || r.followClusters(cl, groups) {
		return
	}
	cl.resources = cl.composeResources(groups)
	cl.groups = append(cl.groups[:0], groups...)
	clients := make([]*Client, 0, len(cl.clients))
	for c := range cl.clients {
		clients = append(clients, c)
	}
	turn := r.turnOf(cl)
	if !held {
		cl.heldTurn = 0
	}
	r.offerResources(Offer{Clients: clients, Resources: cl.resources, Turn: turn, Class: true})
}

// turnOf returns the number of the turn behind the class's next ResourceSnapshot: the active one,
// or else the last one whose resources for the class the barrier held back. It returns 0 if there
// is neither.
func (r *Rollout) turnOf(cl *class) uint64 {
	if r.turn.active {
		return r.turn.number
	}
	return cl.heldTurn
}

// offerResources emits the Offer with the time of the change, sets the clients' offered to its
// Resources, and adds them to the turn's number of proxies.
func (r *Rollout) offerResources(o Offer) {
	for _, c := range o.Clients {
		c.offered = o.Resources
	}
	r.turn.proxies += len(o.Clients)
	o.Changed = r.turn.inbox.first
	r.emitAction(o)
}
