package rollout

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// sweepPeriod is how often idle classes are looked for.
const sweepPeriod = time.Second

// Step applies events at the time now, which must not go back, and returns the actions to carry
// out, in order. Without events it applies only the passing of time. The list is valid until the
// next call.
func (r *Rollout) Step(now time.Time, events ...Event) []Action {
	clear(r.actions) // keeps no outdated ResourceSnapshot alive
	r.now, r.actions = now, r.actions[:0]
	for _, e := range events {
		r.applyEvent(e)
	}
	r.decideAll()
	return r.actions
}

// applyEvent applies one event to the state. Decisions about quarantines that follow from it are
// carried out at once; decideAll then makes all others. A Tick, and Disconnected of a client that
// is not connected, change nothing.
func (r *Rollout) applyEvent(e Event) {
	switch e := e.(type) {
	case Published:
		r.mergeSnapshot(e)
	case Connected:
		r.addClient(e.Client)
	case Disconnected:
		if r.isConnected(e.Client) {
			r.removeClient(e.Client)
		}
	case Generated:
		r.running--
		r.takeProduct(e.Job.producer, e.Product)
		r.finishOrRequeue(e.Job.producer)
	case GeneratorFailed:
		r.failJob(e.Job)
	case Subscribed:
		e.Client.setSubscribed(e.TypeURL, e.Names)
	case NamesWanted:
		r.wantNamesOf(e)
	case Acknowledged:
		r.recordAcked(e.Client, e.Resources)
	case Accepted:
		r.recordAccepted(e)
	case Refused:
		r.recordRefused(e)
	case Answered:
		r.applyAnswer(e)
	case Tick:
	}
}

// decideAll makes all decisions that follow from the applied events and the time, until no further
// one follows. It emits the number of quarantined resources if that may have changed. Each round
// decides quarantines, places moved clients, composes, begins a due turn and dispatches jobs. Only
// if nothing is left to compose or release does it end the turn and advance the transition.
func (r *Rollout) decideAll() {
	r.sweep()
	for {
		r.decideQuarantines()
		r.placeMoving()
		r.composeAllResources()
		if r.isTurnDue() {
			r.beginTurn()
		}
		r.dispatchJobs()
		if len(r.composing)+len(r.moving) > 0 || r.releaseBarrier() {
			continue
		}
		r.endTurn()
		if !r.advanceTransition() && !r.isTurnDue() {
			break
		}
	}
	if r.recount {
		r.recount = false
		r.emitAction(QuarantineCounted{len(r.Quarantined())})
	}
}

// sweep removes idle classes and suspensions (removeIdle), at most once in sweepPeriod.
func (r *Rollout) sweep() {
	if !r.now.Before(r.sweepAt) {
		r.sweepAt = r.now.Add(sweepPeriod)
		r.removeIdle()
	}
}

// decideQuarantines carries out the decisions of quarantines whose time has come, and computes the
// time of the next one in r.quarantineDue if it may have changed.
func (r *Rollout) decideQuarantines() {
	if !r.quarantineDue.IsZero() && !r.now.Before(r.quarantineDue) {
		r.expireQuarantines()
		r.quarantineMoved = true
	}
	if r.quarantineMoved {
		r.quarantineDue, r.quarantineMoved = r.nextQuarantine(), false
	}
}

// releaseBarrier releases the server-first barrier if releaseAt has come, has all classes composed
// again, and reports whether it did. It emits BarrierTimedOut if servers or producers were still
// awaited. It returns false if no barrier is set.
func (r *Rollout) releaseBarrier() bool {
	if !r.barrier.isSet() || r.now.Before(r.barrier.releaseAt()) {
		return false
	}
	if r.barrier.awaitedCount() > 0 {
		r.emitAction(BarrierTimedOut{Servers: len(r.barrier.servers)})
	}
	r.barrier = serverFirstBarrier{}
	for _, cl := range r.classes {
		r.composing[cl] = struct{}{}
	}
	return true
}

// advanceTransition moves the mutual TLS transition to its next phase, if that may begin. From
// AcceptBoth it begins UpdateClients and asks clients to report their progress. From UpdateClients
// it begins AcceptNew at the time of transition.finishAt, at the latest after the timeout. It emits
// TransitionTimedOut if some clients have not acknowledged by then.
//
// It reports whether it moved servers to AcceptNew. It does nothing while the barrier is set or a
// turn is active.
func (r *Rollout) advanceTransition() bool {
	if r.barrier.isSet() || r.turn.active {
		return false // clients are still to be offered the change
	}
	switch r.transition.phase {
	case acceptBoth:
		r.beginClientUpdate()
		return false // the reports are to come
	case updateClients:
		if r.now.Before(r.transition.finishAt()) {
			return false
		}
		r.finishTransition()
		return true
	default:
		return false
	}
}

// beginClientUpdate begins the phase UpdateClients. Clients that have, or were offered, resources
// are asked to report their progress, and awaited.
func (r *Rollout) beginClientUpdate() {
	behind := map[*Client]struct{}{}
	ask := ReportProgress{}
	for c := range r.clients {
		if c.class != nil && (c.class.resources != nil || c.offered != nil) {
			behind[c] = struct{}{}
			ask.Clients = append(ask.Clients, c)
		}
	}
	r.transition.beginUpdate(r.now, behind)
	r.emitAction(ask)
}

// finishTransition ends the transition, and moves its servers to the classes that accept only the
// new modes. It emits TransitionTimedOut if clients are still awaited.
func (r *Rollout) finishTransition() {
	if n := len(r.transition.behind); n > 0 {
		r.emitAction(TransitionTimedOut{Clients: n})
	}
	servers := r.transition.servers
	r.transition.applyEvent(clientsUpdated)
	for c := range servers {
		if c.class != nil {
			k := c.unsuspendedKey()
			k.TransitionModes = ""
			r.placeClient(c, k)
		}
	}
}

// wantNamesOf schedules the generation of the names that a client wants and that were not generated
// yet. It does nothing if the client has no class.
func (r *Rollout) wantNamesOf(e NamesWanted) {
	if e.Client.class == nil {
		return
	}
	for _, pr := range e.Client.class.producers {
		if pr.gen.TypeURL == e.TypeURL {
			r.wantNames(pr, e.Names, false)
		}
	}
}

// recordAcked records for the barrier and the transition that a client has acknowledged everything
// of w. It does nothing if w is nil or not the newest ResourceSnapshot of the client's class.
func (r *Rollout) recordAcked(c *Client, w *stream.ResourceSnapshot) {
	if w == nil || c.class == nil || c.class.resources != w {
		return
	}
	r.transition.markAcked(c)
	r.barrier.markAcked(c)
}

// recordAccepted records the acknowledgement of a response by a voter: its resources are no longer
// candidates, and their quarantines and suspensions end. If the voter has acknowledged everything
// of the type in the newest ResourceSnapshot, it also confirms other candidates (confirmAll). It
// ignores clients that are not voters or have no class.
func (r *Rollout) recordAccepted(e Accepted) {
	cl := e.Client.class
	if cl == nil || !e.Client.isVoter() {
		return
	}
	r.acceptFilters(e)
	for i, pr := range cl.producers {
		if pr.gen.TypeURL != e.TypeURL {
			continue
		}
		pr.candidates.removeAcked(pr.set, e.Parts)
		r.acceptRefused(pr, e)
		if e.Everything && e.Resources != nil && cl.resources == e.Resources && pr.group != nil &&
			cl.groups[i] == pr.group {
			pr.candidates.confirmAll(
				&pr.Product,
				pr.gen.Named != nil,
				e.Client.subscribedNames(e.TypeURL),
				pr.votes.isRefused,
			)
		}
		r.watchCandidates(pr)
	}
}

// recordRefused records the refusal of resources by a voter: against the EnvoyFilters that may be
// left out of the resource, or if there are none against the resource. It carries out the resulting
// decisions at once. It ignores resources that are not open candidates (isOpenCandidate), and
// clients that are not voters or have no class.
func (r *Rollout) recordRefused(e Refused) {
	if e.Client.class == nil || !e.Client.isVoter() {
		return
	}
	for _, pr := range e.Client.class.producers {
		if pr.gen.TypeURL != e.TypeURL || pr.group == nil {
			continue
		}
		for _, refused := range e.Resources {
			if isOpenCandidate(pr, refused) && !r.refuseFilters(e.Client, e.TypeURL, refused) {
				r.refuseResource(e.Client, pr, refused)
			}
		}
	}
}

// applyAnswer begins the quarantine or suspension that the question is about, unless a voter (e.By)
// has acknowledged the refused version: then that version is never quarantined or suspended. It
// does nothing if the decision is outdated.
func (r *Rollout) applyAnswer(e Answered) {
	if q := e.Question; q.producer != nil {
		r.answerQuarantine(q.producer, q.decision, e.By)
	} else {
		r.answerSuspension(q.suspensions, q.decision, e.By)
	}
}

// Next returns the earliest time at which a Step without events has something to decide: about
// sweep, quarantine, debounce, barrier or transition. It may have passed. It is zero only before
// the first Step.
func (r *Rollout) Next() time.Time {
	next := earlier(r.sweepAt, r.quarantineDue)
	if !r.turn.active && r.inbox.snapshot != nil {
		next = earlier(next, r.options.Debounce.dueTime(r.inbox.gathering(), r.turn.last))
	}
	switch {
	case r.barrier.isSet():
		next = earlier(next, r.barrier.releaseAt())
	case r.transition.phase == updateClients && !r.turn.active:
		next = earlier(next, r.transition.finishAt())
	}
	return next
}
