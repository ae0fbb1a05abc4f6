package push

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Package quarantine decides which candidates are withheld. Here is what it does not know: which
// proxies have a vote, what a candidate replaces, and what is served instead.
//
// A producer has a scope of quarantine from the first refusal on. Until then an acknowledgement
// costs nothing but a look at two counters.

// Quarantined is a resource, or what EnvoyFilters change in one, that proxies are not served
// because some refused it.
type Quarantined struct {
	TypeURL, Name, Version string
	// Scope is the proxies that it was made for: the part of their Key that the generator asks
	// about.
	Scope view.Key
	// Message is what a proxy that refused it said of it.
	Message string
	// Witnesses are the identities that refused it, sorted, and Connections the number of their
	// connections; both bounded.
	Witnesses   []string
	Connections int
	// Since is when the quarantine began, Until when the resource is offered to all proxies again,
	// and Attempt the number of times that it was quarantined, from 1.
	Since, Until time.Time
	Attempt      int
	// Replaced means that proxies are served the version before it, and Withheld that they are
	// served none, because there was none. If neither, nothing is known of the time before, so that
	// it is served all the same.
	Replaced, Withheld bool
	// Suspended is the EnvoyFilter that is left out of the resource; the zero Key if the resource
	// itself is quarantined.
	Suspended config.Key
	// From are the objects that shaped it.
	From []config.Key

	instead *resource.Resource
}

// describe fills in what the quarantine decided.
func (q Quarantined) describe(s quarantine.Status) Quarantined {
	q.Witnesses, q.Connections, q.Since, q.Until, q.Attempt = s.Witnesses, s.Connections, s.Since, s.Until, s.Attempt
	return q
}

// offerCandidates states the versions of the next product, which ends the quarantine of others, and
// has the Shelf without what is still in quarantine. Pusher.mu is held.
func (p *Pusher) offerCandidates(pr *producer, next *product) {
	if pr.votes == nil || !pr.votes.scope.Active() {
		return
	}
	now, ended := p.clock.Now(), false
	for _, name := range pr.votes.scope.Names() {
		x := quarantine.Candidate{Name: name}
		if r := next.set.Get(name); r != nil {
			x.Version = r.Version
		}
		if old := pr.votes.refused[name]; old != nil && old.Version == x.Version {
			continue
		}
		delete(pr.votes.refused, name)
		for _, d := range pr.votes.scope.Step(now, quarantine.Offered{Candidate: x}) {
			ended = p.record(pr, d) || ended
		}
	}
	if pr.shelf != nil {
		next.shelf = pr.vetted(next.set, next.shelf)
	}
	p.observe(pr)
	if ended {
		p.countQuarantined()
	}
}

// enforce does what the quarantine of a producer decided. Pusher.mu is held.
func (p *Pusher) enforce(pr *producer, decisions []quarantine.Decision) {
	changed := false
	for _, d := range slices.Clone(decisions) {
		if q, ok := d.(quarantine.Quarantine); ok && p.isAccepted(pr, q.Candidate) {
			continue
		}
		changed = p.record(pr, d) || changed
	}
	if !changed {
		return
	}
	p.countQuarantined()
	if pr.shelf == nil {
		return
	}
	pr.shelf = pr.vetted(pr.set, pr.shelf)
	for cl := range pr.classes {
		p.settle(cl)
	}
}

// isAccepted reports whether a voter has acknowledged a candidate, and then ends its quarantine for
// good. Voters that have come from another class may have acknowledged it there, and in the end an
// acknowledgement may have come unnoticed (watchLimit). Pusher.mu is held.
func (p *Pusher) isAccepted(pr *producer, x quarantine.Candidate) bool {
	r := pr.set.Get(x.Name)
	if r == nil || r.Version != x.Version {
		return false
	}
	for c := range pr.voting() {
		if c.acknowledges(r) {
			pr.votes.scope.Step(p.clock.Now(), quarantine.Accepted{Candidate: x, Connection: c.id})
			delete(pr.votes.refused, x.Name)
			delete(pr.candidates.before, x.Name)
			return true
		}
	}
	return false
}

// record notes a decision, and reports whether it changes what is in quarantine. Pusher.mu is held.
func (p *Pusher) record(pr *producer, d quarantine.Decision) bool {
	switch d := d.(type) {
	case quarantine.Quarantine:
		x := pr.votes.refused[d.Name]
		if x == nil || x.Version != d.Version {
			return false
		}
		q := x.describe(d.Status)
		pr.votes.kept[d.Name] = q
		p.log.Warn("resource quarantined: proxies refuse it", "type", api.ShortType(q.TypeURL),
			"resource", q.Name, "version", q.Version,
			"witnesses", q.Witnesses, "until", q.Until, "attempt", q.Attempt, "from", q.From, "message", q.Message)
		return true
	case quarantine.Release:
		if _, kept := pr.votes.kept[d.Name]; !kept {
			return false
		}
		delete(pr.votes.kept, d.Name)
		p.log.Info("quarantine ended", "type", api.ShortType(pr.gen.TypeURL),
			"resource", d.Name, "version", d.Version, "reason", d.Reason)
		return true
	}
	return false
}

// vetted returns the Shelf with everything of the set but what is in quarantine. It is the present
// one if nothing differs.
func (pr *producer) vetted(set *resource.Set, shelf *stream.Shelf) *stream.Shelf {
	var instead []*resource.Resource
	var without []string
	for name, q := range pr.votes.kept {
		switch {
		case q.Replaced:
			instead = append(instead, q.instead)
		case q.Withheld:
			without = append(without, name)
		}
	}
	if len(instead)+len(without) == 0 && shelf.Set() == set {
		return shelf
	}
	served := set.With(instead, without)
	if served.Version() == pr.shelf.Set().Version() && slices.Equal(shelf.Asked(), pr.shelf.Asked()) {
		return pr.shelf
	}
	if pr.gen.Named != nil {
		return stream.NewNamedShelf(served, shelf.Asked())
	}
	return stream.NewShelf(served)
}

// observe keeps the list of producers whose quarantine has something to decide, and has the time
// looked at soon. Pusher.mu is held.
func (p *Pusher) observe(pr *producer) {
	if pr.votes == nil || !pr.votes.scope.Active() || p.producers[pr.producerKey] != pr {
		delete(p.observing, pr)
	} else {
		p.observing[pr] = struct{}{}
		p.hasten()
	}
	p.countObserved()
}

func (p *Pusher) countObserved() {
	p.count.observed.Store(int64(len(p.observing) + len(p.suspensions)))
}

// expireQuarantines has decisions made that are due by the time alone, and returns when the next
// one is; zero if none is waited for. Pusher.mu is held.
func (p *Pusher) expireQuarantines(now time.Time) (next time.Time) {
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for pr := range p.observing {
		p.enforce(pr, pr.votes.scope.Step(now, quarantine.Tick{}))
		if !pr.votes.scope.Active() {
			clear(pr.votes.refused)
			p.observe(pr)
			continue
		}
		sooner(pr.votes.scope.Next(now))
	}
	for _, s := range p.suspensions {
		p.enforceSuspensions(s, s.scope.Step(now, quarantine.Tick{}))
		sooner(s.scope.Next(now))
	}
	return next
}

// countQuarantined notes how much is in quarantine. Pusher.mu is held.
func (p *Pusher) countQuarantined() { p.metrics.Quarantined(len(p.quarantined())) }

// quarantined returns what is kept from proxies that are there. Pusher.mu is held.
func (p *Pusher) quarantined() []Quarantined {
	var list []Quarantined
	for _, pr := range p.producers {
		if pr.live > 0 && pr.votes != nil {
			list = slices.AppendSeq(list, maps.Values(pr.votes.kept))
		}
	}
	for _, s := range p.suspensions {
		if len(s.members) > 0 {
			list = slices.AppendSeq(list, maps.Values(s.inForce))
		}
	}
	return list
}

// tellQuarantine tells how much is in quarantine, if the producers of a class have anything there.
// Pusher.mu is held.
func (p *Pusher) tellQuarantine(cl *class) {
	if slices.ContainsFunc(cl.producers, func(pr *producer) bool { return pr.votes != nil && len(pr.votes.kept) > 0 }) {
		p.countQuarantined()
	}
}

// Quarantine returns what is kept from proxies, sorted by type, name and time.
func (p *Pusher) Quarantine() []Quarantined {
	p.mu.Lock()
	list := p.quarantined()
	p.mu.Unlock()
	slices.SortFunc(list, func(a, b Quarantined) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), a.Suspended.Compare(b.Suspended),
			a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
	return list
}
