package push

import (
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A client has a vote if it has proved an identity. What it refuses and acknowledges goes to the
// quarantine of the producers that made it (quarantine.go), or to that of EnvoyFilters of its class
// (suspension.go).

// votes is what voters said of a producer's resources. Pusher.mu guards it.
type votes struct {
	scope *quarantine.Scope
	// refused has, by name, what is known of the resources that voters refused. kept are those of
	// them in quarantine.
	refused map[string]*Quarantined
	kept    map[string]Quarantined
}

// observed returns the votes of a producer, and makes them at the first refusal. Pusher.mu is held.
func (p *Pusher) observed(pr *producer) *votes {
	if pr.votes == nil {
		pr.votes = &votes{scope: quarantine.New(p.timing), refused: map[string]*Quarantined{}, kept: map[string]Quarantined{}}
		now := p.clock.Now()
		for c := range pr.voting() {
			pr.votes.scope.Step(now, quarantine.Joined{Member: c.member()})
		}
	}
	return pr.votes
}

// voting yields the clients of a producer that have a vote. Pusher.mu is held.
func (pr *producer) voting() func(yield func(*Client) bool) {
	return func(yield func(*Client) bool) {
		for cl := range pr.classes {
			for c := range cl.clients {
				if c.votes() && !yield(c) {
					return
				}
			}
		}
	}
}

// votes reports whether what the client accepts and refuses counts: it has proved an identity.
func (c *Client) votes() bool { return c.proxy.Identity != "" }

func (c *Client) member() quarantine.Member {
	return quarantine.Member{Connection: c.id, Identity: c.proxy.Identity}
}

// acknowledges reports whether the client asked for the resource and has acknowledged it.
func (c *Client) acknowledges(r *resource.Resource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Acknowledged(r.TypeURL, r)
}

// moveVote takes a client's vote from the producers of one class to those of another; nil is none.
// What the client refused of a producer that both have still counts. Pusher.mu is held.
func (p *Pusher) moveVote(c *Client, from, to *class) {
	if !c.votes() {
		return
	}
	now := p.clock.Now()
	for i := range p.generators {
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
			old.voters--
			p.watch(old)
			if old.votes != nil {
				p.enforce(old, old.votes.scope.Step(now, quarantine.Left{Connection: c.id}))
			}
		}
		if next != nil {
			next.voters++
			p.watch(next)
			if next.votes != nil {
				p.enforce(next, next.votes.scope.Step(now, quarantine.Joined{Member: c.member()}))
			}
		}
	}
}

// refuse counts what a client refused as its vote.
func (p *Pusher) refuse(c *Client, n Nack) {
	if !c.votes() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil {
		return
	}
	for _, pr := range c.class.producers {
		if pr.gen.TypeURL != n.TypeURL || pr.shelf == nil {
			continue
		}
		for _, r := range n.Resources {
			p.refuseResource(c, pr, n, r)
		}
	}
}

// refuseResource counts one refusal. It has no effect if the resource is outdated, a matter of the
// proxy alone, or acknowledged by another voter. Pusher.mu is held.
func (p *Pusher) refuseResource(c *Client, pr *producer, n Nack, r Refused) {
	now := pr.set.Get(r.Name)
	before, candidate := pr.candidates.candidate(r.Name)
	if !candidate || now == nil || now.Version != r.Version || pr.gen.Local != nil && pr.gen.Local(r.Name) {
		return
	}
	if p.refuseFilters(c, n, r) { // the resource is to go on without them
		return
	}
	v, at := p.observed(pr), p.clock.Now()
	x := quarantine.Candidate{Name: r.Name, Version: r.Version}
	if v.scope.Accepted(x) {
		return
	}
	if old := v.refused[r.Name]; old == nil || old.Version != r.Version {
		v.refused[r.Name] = &Quarantined{
			TypeURL: n.TypeURL, Name: r.Name, Version: r.Version, Scope: pr.scope, Message: n.Of(r.Name), From: r.From,
			Replaced: before.resource != nil, Withheld: before.known && before.resource == nil, instead: before.resource,
		}
	}
	p.enforce(pr, v.scope.Step(at, quarantine.Refused{Candidate: x, Connection: c.id}))
	p.observe(pr)
}

// accepted counts what a client acknowledged as its vote: one response, and with took everything
// that a World has of the type.
func (p *Pusher) accepted(c *Client, a stream.Ack, w *stream.World, took bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil {
		return
	}
	p.acceptFilters(c, a)
	for i, pr := range c.class.producers {
		if pr.gen.TypeURL != a.TypeURL {
			continue
		}
		pr.accept(a.Parts)
		p.acceptRefused(c, pr, a)
		if took && w != nil && c.class.world == w && pr.shelf != nil && c.class.shelves[i] == pr.shelf {
			pr.confirm(c)
		}
		p.watch(pr)
	}
}

// acceptRefused ends the quarantine, or the observation, of what a client has acknowledged and
// others refused. Pusher.mu is held.
func (p *Pusher) acceptRefused(c *Client, pr *producer, a stream.Ack) {
	if pr.votes == nil || !pr.votes.scope.Active() {
		return
	}
	now := p.clock.Now()
	for _, part := range a.Parts {
		for _, r := range part.Resources() {
			if x := pr.votes.refused[r.Name]; x != nil && x.Version == r.Version {
				p.enforce(pr, pr.votes.scope.Step(now, quarantine.Accepted{
					Candidate: quarantine.Candidate{Name: r.Name, Version: r.Version}, Connection: c.id,
				}))
				delete(pr.votes.refused, r.Name)
				delete(pr.candidates.before, r.Name)
			}
		}
	}
	p.observe(pr)
}
