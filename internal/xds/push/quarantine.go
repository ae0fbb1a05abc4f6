package push

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A resource that a proxy refuses, and that no proxy has taken yet, is kept from all proxies that it was made for: they are
// served the one before it, or none if there was none, until it comes out different. Where nothing is known of what was
// before, as after a restart, it goes on being served: a proxy that has an older one keeps that, and to be told that there is
// none would take it away. One that other proxies have taken, before or after, is not kept from anybody: then it is for a reason of
// its own that a proxy refuses it, such as a port that is in use there.

// Quarantined is a resource that is kept from the proxies that it was made for.
type Quarantined struct {
	TypeURL, Name, Version string
	// Scope is the proxies that it was made for: the part of their Key that the generator asks about.
	Scope view.Key
	// Message is what the proxy that refused it first said of it, Since when that was.
	Message string
	Since   time.Time
	// Replaced says that they are served the version before it, Withheld that they are served none, for there was none.
	// Neither: nothing is known of the time before, and those that have an older one keep it.
	Replaced, Withheld bool
	// From are the objects that shaped it.
	From []config.Key

	instead *resource.Resource
}

// trial is what is known of how proxies take the resources of a producer. Pusher.mu guards it.
type trial struct {
	// before has, for each name whose resource no proxy has acknowledged yet, the one that was served before; nil: none.
	before map[string]*resource.Resource
	// first says that nothing at all has been acknowledged yet.
	first bool
	// kept are the resources in quarantine, by name.
	kept map[string]Quarantined
}

// open says whether there is anything that no proxy has taken yet.
func (t *trial) open() bool { return t.first || t.before != nil }

// onTrial says whether no proxy has taken the resource yet.
func (t *trial) onTrial(name string) bool {
	_, ok := t.before[name]
	return ok || t.first
}

// try notes what is about to be served: what in the newest product differs from what is served now.
func (p *Pusher) try(pr *producer, next *product) {
	served := pr.ancestor
	if pr.shelf != nil {
		served = pr.shelf.Set()
	} else if served != nil {
		next.changed = resource.Compare(served, next.set).Updated
	}
	switch {
	case served == nil:
		pr.trial.first = true
		p.count.trials.Add(1)
	case len(next.changed) > 0 && !pr.trial.first:
		if pr.trial.before == nil {
			pr.trial.before = map[string]*resource.Resource{}
			p.count.trials.Add(1)
		}
		for _, r := range next.changed {
			if _, known := pr.trial.before[r.Name]; !known {
				pr.trial.before[r.Name] = served.Get(r.Name)
			}
		}
	}
	next.changed, pr.ancestor = nil, nil
	if before := len(pr.trial.kept); before > 0 {
		if next.shelf = pr.vetted(next.set, next.shelf); len(pr.trial.kept) < before {
			p.countQuarantined()
		}
	}
}

// vetted gives the Shelf with everything of the set but what is in quarantine, and lifts that of what is not made any more.
func (pr *producer) vetted(set *resource.Set, shelf *stream.Shelf) *stream.Shelf {
	var instead []*resource.Resource
	var without []string
	for name, q := range pr.trial.kept {
		switch r := set.Get(name); {
		case r == nil || r.Version != q.Version:
			delete(pr.trial.kept, name)
		case q.Replaced:
			instead = append(instead, q.instead)
		case q.Withheld:
			without = append(without, name)
		}
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

// proven notes that a client has all that a World has of some types, and refuses nothing of it.
func (p *Pusher) proven(c *Client, w *stream.World, types []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil || c.class.world != w {
		return
	}
	for _, pr := range c.class.producers {
		if pr.trial.open() && slices.Contains(types, pr.gen.TypeURL) {
			pr.trial.first, pr.trial.before = false, nil
			p.count.trials.Add(-1)
		}
	}
}

// lift ends the quarantine of what a client has taken, which was on its way to it when another one refused it: whoever did had reasons
// of its own. Else one proxy could keep a policy from all its like by being the first to answer.
func (p *Pusher) lift(c *Client, a stream.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil {
		return
	}
	changed := false
	for _, pr := range c.class.producers {
		if pr.gen.TypeURL != a.TypeURL || !pr.trial.vindicate(a.Parts) {
			continue
		}
		changed = true
		pr.shelf = pr.vetted(pr.set, pr.shelf)
		for cl := range pr.classes {
			p.settle(cl)
		}
	}
	if changed {
		p.countQuarantined()
	}
}

// vindicate takes what is in parts out of quarantine, and off trial. It says whether there was any.
func (t *trial) vindicate(parts []*stream.Payload) bool {
	lifted := false
	for _, p := range parts {
		for _, r := range p.Resources() {
			if q, ok := t.kept[r.Name]; ok && q.Version == r.Version {
				delete(t.kept, r.Name)
				delete(t.before, r.Name)
				lifted = true
			}
		}
	}
	return lifted
}

// keep puts what a client refused into quarantine, or else the EnvoyFilters that shaped it.
func (p *Pusher) keep(c *Client, n Nack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil {
		return
	}
	cl, changed, suspended := c.class, false, false
	for _, pr := range cl.producers {
		if pr.gen.TypeURL != n.TypeURL || pr.shelf == nil {
			continue
		}
		kept := false
		for _, r := range n.Resources {
			now := pr.set.Get(r.Name)
			if pr.gen.Local != nil && pr.gen.Local(r.Name) {
				continue
			}
			if _, already := pr.trial.kept[r.Name]; already || !pr.trial.onTrial(r.Name) || now == nil || now.Version != r.Version {
				continue
			}
			before, known := pr.trial.before[r.Name]
			if p.suspend(cl, n, r) {
				suspended = true
				continue
			}
			if pr.trial.kept == nil {
				pr.trial.kept = map[string]Quarantined{}
			}
			pr.trial.kept[r.Name] = Quarantined{
				TypeURL: n.TypeURL, Name: r.Name, Version: r.Version, Scope: pr.scope, Message: n.Of(r.Name), Since: n.Time,
				Replaced: before != nil, Withheld: known && before == nil, From: r.From, instead: before,
			}
			kept = true
			p.log.Warn("in quarantine: "+api.ShortType(n.TypeURL)+" "+r.Name, "from", r.From, "proxies", cl.key.Type, "namespace", cl.key.Namespace, "message", n.Of(r.Name))
		}
		if kept {
			changed = true
			pr.shelf = pr.vetted(pr.set, pr.shelf)
			for cl := range pr.classes {
				p.settle(cl)
			}
		}
	}
	if suspended {
		p.resettle(cl.key.Type, cl.key.Namespace)
	}
	if changed || suspended {
		p.countQuarantined()
	}
}

// countQuarantined notes how much is in quarantine. Pusher.mu is held.
func (p *Pusher) countQuarantined() {
	n := len(p.quarantined())
	p.count.quarantined.Store(int64(n))
	p.metrics.Quarantined(n)
}

// quarantined gives what is kept from proxies that are there. Pusher.mu is held.
func (p *Pusher) quarantined() []Quarantined {
	var list []Quarantined
	for _, pr := range p.producers {
		if pr.live > 0 {
			list = slices.AppendSeq(list, maps.Values(pr.trial.kept))
		}
	}
	return slices.AppendSeq(list, maps.Values(p.suspended))
}

// tellQuarantine tells how much is in quarantine, if the producers of a class have anything there. Pusher.mu is held.
func (p *Pusher) tellQuarantine(cl *class) {
	if slices.ContainsFunc(cl.producers, func(pr *producer) bool { return len(pr.trial.kept) > 0 }) {
		p.countQuarantined()
	}
}

// Quarantine gives the resources that are kept from proxies, sorted by type, name and time.
func (p *Pusher) Quarantine() []Quarantined {
	p.mu.Lock()
	list := p.quarantined()
	p.mu.Unlock()
	slices.SortFunc(list, func(a, b Quarantined) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since), cmp.Compare(a.Version, b.Version))
	})
	return list
}
