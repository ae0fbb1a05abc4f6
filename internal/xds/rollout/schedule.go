package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// producerFor returns the producer of a generator for a Key. It makes a new one if there is none.
func (r *Rollout) producerFor(generator int, k view.Key) *producer {
	gen := &r.options.Generators[generator]
	key := producerKey{generator, scopeOf(gen, k)}
	pr := r.producers[key]
	if pr == nil {
		pr = &producer{producerKey: key, gen: gen, classes: map[*class]struct{}{}}
		pr.pending.delta.All = true // runs when its class has a client
		r.producers[key] = pr
	}
	return pr
}

// enqueue schedules the pending task of a producer. It does nothing if no client needs the
// producer. The turn under way waits for it if ofTurn is set; it does not wait for names that
// clients request meanwhile.
func (r *Rollout) enqueue(pr *producer, ofTurn bool) {
	if pr.live == 0 {
		return
	}
	if ofTurn && r.turn.active {
		r.turn.waiting[pr] = struct{}{}
	}
	if !pr.busy {
		pr.busy = true
		r.queue = append(r.queue, pr)
	}
}

// wantNames schedules the generation of names that were not generated yet. It reports whether there
// are any: then a new Shelf will follow.
func (r *Rollout) wantNames(pr *producer, names []string, ofTurn bool) bool {
	if pr.shelf != nil {
		names = without(names, pr.shelf.Asked())
	}
	if len(names) == 0 {
		return false
	}
	pr.pending.names = union(pr.pending.names, names)
	r.enqueue(pr, ofTurn)
	return true
}

// dispatch emits Generate for queued producers as long as fewer than MaxJobs are running. The task
// of a producer contains everything that was added to it while it was queued. A producer that no
// client needs any more is finished instead and keeps its task.
func (r *Rollout) dispatch() {
	for len(r.queue) > 0 && r.running < r.options.MaxJobs {
		pr := r.queue[0]
		r.queue[0] = nil
		if r.queue = r.queue[1:]; len(r.queue) == 0 {
			r.queue = nil
		}
		if pr.live == 0 {
			r.finish(pr)
			continue
		}
		job := &Job{producer: pr, task: pr.pending, old: pr.Product, snapshot: r.snapshot, classes: len(pr.classes)}
		pr.pending = task{}
		r.running++
		r.emit(Generate{job})
	}
}

// finish records that a producer has nothing to do.
func (r *Rollout) finish(pr *producer) {
	pr.busy = false
	r.turn.finished = append(r.turn.finished, pr)
	r.barrier.finishGenerating(pr)
	r.composeLater(pr)
}

// finishOrRequeue schedules what was added to a producer's task while its generator ran. Without
// such, or after a failure, the producer is finished.
func (r *Rollout) finishOrRequeue(pr *producer) {
	if pr.failed || pr.pending.empty() {
		r.finish(pr)
		return
	}
	r.queue = append(r.queue, pr)
}

// failJob keeps the old Product of a producer whose generator panicked. The generator runs again,
// from scratch, with the next change.
func (r *Rollout) failJob(j *Job) {
	r.running--
	pr := j.producer
	pr.failed = true
	pr.pending.delta.All = true
	pr.pending.names = union(pr.pending.names, j.task.names)
	r.finishOrRequeue(pr)
}

// followClusters requests the endpoints of new clusters before the clusters are sent. shelves are
// those of a class's next World. It reports whether any endpoints are missing.
func (r *Rollout) followClusters(cl *class, shelves []*stream.Shelf) bool {
	missing := false
	for i, clusters := range cl.producers {
		if clusters.gen.TypeURL != api.ClusterType || i < len(cl.shelves) && cl.shelves[i] == shelves[i] {
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

// requestEndpoints requests the endpoints of a producer's newest clusters. It reports whether any
// are missing.
func (r *Rollout) requestEndpoints(clusters, endpoints *producer) bool {
	done := endpoints.followed[clusters]
	if done == clusters.shelf {
		return false
	}
	if endpoints.followed == nil {
		endpoints.followed = map[*producer]*stream.Shelf{}
	}
	endpoints.followed[clusters] = clusters.shelf
	if done != nil && done == clusters.before {
		return r.wantNames(endpoints, clusters.added, true)
	}
	return r.wantNames(endpoints, clusters.needs, true)
}

// composeWorlds gives each class in composing its next World, if all of its producers are done and
// one of them has a new Shelf. A class with a failed producer keeps the World that it has.
func (r *Rollout) composeWorlds() {
	for cl := range r.composing {
		delete(r.composing, cl)
		if len(cl.clients) > 0 {
			r.composeWorld(cl)
		}
	}
}

func (r *Rollout) composeWorld(cl *class) {
	shelves := make([]*stream.Shelf, len(cl.producers))
	for i, pr := range cl.producers {
		shelf, ready := r.barrier.shelf(pr)
		if !ready {
			return
		}
		shelves[i] = shelf
	}
	if !r.barrier.retainEndpoints(cl, shelves) {
		return
	}
	if cl.has(shelves) || r.followClusters(cl, shelves) {
		return
	}
	cl.world = cl.composeWorld(shelves)
	cl.shelves = shelves
	clients := make([]*Client, 0, len(cl.clients))
	for c := range cl.clients {
		clients = append(clients, c)
	}
	r.offer(cl.world, clients...)
}

// offer emits an Offer and records it at the clients.
func (r *Rollout) offer(w *stream.World, clients ...*Client) {
	for _, c := range clients {
		c.offered = w
	}
	r.turn.proxies += len(clients)
	r.emit(Offer{Clients: clients, World: w, Changed: r.turn.inbox.first})
}
