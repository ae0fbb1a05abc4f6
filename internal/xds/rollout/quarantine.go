package rollout

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
)

// Package quarantine decides which candidates are withheld. This file supplies the voters, the
// version that a candidate replaces and the version that is served instead.
//
// A producer has votes from the first refusal on. Until then an acknowledgement costs a look at two
// counters.

// votesOf returns the votes of a producer. If it has none yet, they are created with all present
// voters as members.
func (r *Rollout) votesOf(pr *producer) *votes {
	if pr.votes == nil {
		pr.votes = newVotes(r.options.Quarantine)
		for c := range pr.voterClients() {
			pr.votes.scope.Step(r.now, quarantine.Joined{Member: c.member()})
		}
	}
	return pr.votes
}

// moveVote moves the vote of client c from the producers of class from to the producers of class
// to; either class may be nil. Its refusals at a producer that both classes share remain valid. It
// does nothing for a client that is not a voter.
func (r *Rollout) moveVote(c *Client, from, to *class) {
	if !c.isVoter() {
		return
	}
	for i := range r.options.Generators {
		var old, next *producer
		if from != nil {
			old = from.producers[i]
		}
		if to != nil {
			next = to.producers[i]
		}
		if old == next {
			continue
		}
		if old != nil {
			r.changeVoters(old, -1, quarantine.Left{Connection: c.ID})
		}
		if next != nil {
			r.changeVoters(next, 1, quarantine.Joined{Member: c.member()})
		}
	}
}

// changeVoters adds by to the number of a producer's voters. If the producer has votes, it applies
// e (Joined or Left) to its quarantine and carries out the decisions.
func (r *Rollout) changeVoters(pr *producer, by int, e quarantine.Event) {
	pr.voters += by
	r.watchCandidates(pr)
	if pr.votes != nil {
		r.enforceQuarantine(pr, pr.votes.scope.Step(r.now, e))
	}
}

// takeProduct replaces the Product of a producer by next, clears its failed flag, and adds the
// differences to the counts of the turn. Changed resources become candidates, and quarantines of
// other versions end. Resources still quarantined are replaced or left out in the ResourceGroup
// (servedGroup). A first Product is compared with the Product of the producer's ancestor. If the
// ResourceGroup differs and the barrier waits for the producer, the barrier awaits its clients.
func (r *Rollout) takeProduct(pr *producer, next Product) {
	served, asked := (*resource.Set)(nil), []string(nil)
	switch {
	case pr.group != nil:
		served, asked = pr.group.Set(), pr.group.LookedUpNames()
	case pr.ancestor != nil:
		served, asked = pr.ancestor.set, pr.ancestor.asked
		pr.candidates.inheritFrom(pr.ancestor, next.set)
		next.changed = resource.Compare(served, next.set).Updated
	}
	r.countResources(pr.gen.TypeURL, served, &next)
	pr.candidates.addDifferences(r.now, &next, served, asked, pr.gen.Named != nil, pr.voters)
	next.changed, pr.ancestor = nil, nil
	r.watchCandidates(pr)
	if pr.votes != nil {
		r.offerVersions(pr, next.set)
		next.group = pr.votes.servedGroup(next.set, next.group, pr.group, pr.gen.Named != nil)
	}
	if next.group != pr.group {
		r.barrier.awaitServersOf(pr)
	}
	pr.Product, pr.failed = next, false
}

// offerVersions reports the versions of a set to the producer's quarantine. That ends the
// quarantine and the observation of other versions of these names, also of names that set lacks. It
// does nothing if no refused resource is observed.
func (r *Rollout) offerVersions(pr *producer, set *resource.Set) {
	if !pr.votes.scope.Active() {
		return
	}
	for _, name := range pr.votes.scope.Names() {
		x := quarantine.Candidate{Name: name}
		if now := set.Get(name); now != nil {
			x.Version = now.Version
		}
		if old := pr.votes.refused[name]; old != nil && old.Version == x.Version {
			continue
		}
		delete(pr.votes.refused, name)
		for _, d := range pr.votes.scope.Step(r.now, quarantine.Offered{Candidate: x}) {
			r.recordDecision(pr, d)
		}
	}
	r.trackVotes(pr)
}

// enforceQuarantine carries out decisions about a producer. A release takes effect at once. A
// quarantine does not begin here: it emits FindAcknowledged for all voters, because one may have
// acknowledged the resource in another class, or after watchLimit. answerQuarantine begins it. A
// quarantine of another version than the present one is dropped.
func (r *Rollout) enforceQuarantine(pr *producer, decisions []quarantine.Decision) {
	changed := false
	r.quarantineMoved = true
	for _, d := range slices.Clone(decisions) {
		q, begins := d.(quarantine.Quarantine)
		if !begins {
			changed = r.recordDecision(pr, d) || changed
			continue
		}
		now := pr.set.Get(q.Name)
		if now == nil || now.Version != q.Version {
			continue
		}
		ask := FindAcknowledged{Question: &Question{decision: q, producer: pr}}
		for c := range pr.voterClients() {
			ask.Candidates = append(ask.Candidates, Acknowledgement{c, now})
		}
		r.emitAction(ask)
	}
	if changed {
		r.serveVoted(pr)
	}
}

// answerQuarantine begins the quarantine q if by, the voter that has acknowledged the resource, is
// nil or disconnected, unless q has ended in the meantime. Otherwise it ends the observation of
// this version for good.
func (r *Rollout) answerQuarantine(pr *producer, q quarantine.Quarantine, by *Client) {
	if by != nil && r.isConnected(by) {
		r.acceptCandidate(pr, q.Candidate, by)
		return
	}
	if !pr.votes.scope.Quarantined(q.Candidate) {
		return // ended in the meantime
	}
	if r.recordDecision(pr, q) {
		r.serveVoted(pr)
	}
}

// acceptCandidate records that a voter has acknowledged a refused resource. This ends the
// resource's quarantine, and it is no longer a candidate.
func (r *Rollout) acceptCandidate(pr *producer, x quarantine.Candidate, by *Client) {
	r.enforceQuarantine(pr, pr.votes.scope.Step(r.now, quarantine.Accepted{Candidate: x, Connection: by.ID}))
	delete(pr.votes.refused, x.Name)
	delete(pr.candidates.replaced, x.Name)
	r.trackVotes(pr)
}

// recordDecision records a decision, emits QuarantineBegan or QuarantineEnded, and has the
// quarantined resources counted again (r.recount). It returns true unless it did nothing. It does
// nothing for a quarantine of a version other than the refused one, and for a release of a resource
// that is not quarantined.
func (r *Rollout) recordDecision(pr *producer, d quarantine.Decision) bool {
	switch d := d.(type) {
	case quarantine.Quarantine:
		x := pr.votes.refused[d.Name]
		if x == nil || x.Version != d.Version {
			return false
		}
		q := x.withStatus(d.Status)
		pr.votes.inForce[d.Name] = q
		r.emitAction(QuarantineBegan{q})
	case quarantine.Release:
		if _, quarantined := pr.votes.inForce[d.Name]; !quarantined {
			return false
		}
		delete(pr.votes.inForce, d.Name)
		r.emitAction(QuarantineEnded{TypeURL: pr.gen.TypeURL, Name: d.Name, Version: d.Version, Reason: d.Reason})
	}
	r.recount = true
	return true
}

// serveVoted replaces the producer's ResourceGroup by one of its newest resources in which
// quarantined ones are replaced or left out (servedGroup). It has its classes' ResourceSnapshots
// composed again. It does nothing if the producer has no Product.
func (r *Rollout) serveVoted(pr *producer) {
	if pr.group == nil {
		return
	}
	pr.group = pr.votes.servedGroup(pr.set, pr.group, pr.group, pr.gen.Named != nil)
	r.composeLater(pr)
}

// trackVotes adds a producer to r.observing if its quarantine has something to decide, and removes
// it otherwise or if the producer was removed. It also records that quarantines may be due
// (quarantineMoved).
func (r *Rollout) trackVotes(pr *producer) {
	if pr.votes == nil || !pr.votes.scope.Active() || r.producers[pr.producerKey] != pr {
		delete(r.observing, pr)
	} else {
		r.observing[pr] = struct{}{}
	}
	r.quarantineMoved = true
}

// refuseResource records a refusal by the voter c in the producer's quarantine, and carries out the
// decisions. isOpenCandidate must have returned true. It has no effect if another voter has
// acknowledged this version.
func (r *Rollout) refuseResource(c *Client, pr *producer, refused RefusedResource) {
	before, _ := pr.candidates.findPrevious(refused.Name)
	v := r.votesOf(pr)
	x := quarantine.Candidate{Name: refused.Name, Version: refused.Version}
	if v.scope.Accepted(x) {
		return
	}
	if old := v.refused[refused.Name]; old == nil || old.Version != refused.Version {
		v.refused[refused.Name] = &Quarantined{
			TypeURL: pr.gen.TypeURL, Name: refused.Name, Version: refused.Version, Scope: pr.scope,
			Message: refused.Message, From: refused.From, Replaced: before.resource != nil,
			Withheld: before.known && before.resource == nil, replacement: before.resource,
		}
	}
	r.enforceQuarantine(pr, v.scope.Step(r.now, quarantine.Refused{Candidate: x, Connection: c.ID}))
	r.trackVotes(pr)
}

// isOpenCandidate reports whether a refusal of the resource is to be recorded: it is the newest
// version and no voter has acknowledged it. It returns false if acceptance of the resource depends
// on something that only one proxy has (Generator.Local). If it returns false, the refusal is
// ignored.
func isOpenCandidate(pr *producer, refused RefusedResource) bool {
	now := pr.set.Get(refused.Name)
	_, candidate := pr.candidates.findPrevious(refused.Name)
	return candidate && now != nil && now.Version == refused.Version &&
		(pr.gen.Local == nil || !pr.gen.Local(refused.Name))
}

// acceptRefused ends the quarantine, or the observation, of refused resources that the voter
// e.Client has acknowledged in the refused version. It does nothing if the producer observes no
// refusal.
func (r *Rollout) acceptRefused(pr *producer, e Accepted) {
	if pr.votes == nil || !pr.votes.scope.Active() {
		return
	}
	for _, part := range e.Parts {
		for _, got := range part.Resources() {
			if x := pr.votes.refused[got.Name]; x != nil && x.Version == got.Version {
				r.acceptCandidate(pr, quarantine.Candidate{Name: got.Name, Version: got.Version}, e.Client)
			}
		}
	}
	r.trackVotes(pr)
}

// expireQuarantines applies the passing of time (a Tick) to all observed producers and to all
// suspensions, and carries out the decisions. A producer with nothing left to observe forgets its
// refusals.
func (r *Rollout) expireQuarantines() {
	for _, pr := range slices.Collect(maps.Keys(r.observing)) {
		r.enforceQuarantine(pr, pr.votes.scope.Step(r.now, quarantine.Tick{}))
		if !pr.votes.scope.Active() {
			clear(pr.votes.refused)
			r.trackVotes(pr)
		}
	}
	for _, s := range r.suspensions {
		r.enforceSuspensions(s, s.scope.Step(r.now, quarantine.Tick{}))
	}
}

// nextQuarantine returns the earliest time at which any quarantine or suspension has something to
// decide, or zero if there is none.
func (r *Rollout) nextQuarantine() (next time.Time) {
	for pr := range r.observing {
		next = earlier(next, pr.votes.scope.Next(r.now))
	}
	for _, s := range r.suspensions {
		next = earlier(next, s.scope.Next(r.now))
	}
	return next
}

// Quarantined returns the resources that are withheld from connected proxies and the suspended
// EnvoyFilters, in no particular order. Each has the IDs of the affected clients. Quarantines and
// suspensions without connected clients are left out.
func (r *Rollout) Quarantined() []Quarantined {
	var list []Quarantined
	for _, pr := range r.producers {
		if pr.live == 0 || pr.votes == nil {
			continue
		}
		var affected []string
		for cl := range pr.classes {
			affected = appendIDs(affected, maps.Keys(cl.clients))
		}
		for _, q := range pr.votes.inForce {
			q.Affected = affected
			list = append(list, q)
		}
	}
	for _, s := range r.suspensions {
		affected := appendIDs(nil, maps.Keys(s.members))
		for _, q := range s.inForce {
			if len(affected) > 0 {
				q.Affected = affected
				list = append(list, q)
			}
		}
	}
	return list
}

// appendIDs returns list with the IDs of the clients appended.
func appendIDs(list []string, clients iter.Seq[*Client]) []string {
	for c := range clients {
		list = append(list, c.ID)
	}
	return list
}
