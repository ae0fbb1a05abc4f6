package push

import (
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A resource that differs from what was served is a candidate until a proxy with a proven identity
// has acknowledged it. Proxies without one have no vote: what they acknowledge or refuse decides
// nothing.

// candidates are those of a producer, and what they replace. Pusher.mu guards them.
type candidates struct {
	// unconfirmed means that no voter has acknowledged anything of the producer yet, as after a
	// restart. Then everything is a candidate, and nothing is known of what was served before.
	unconfirmed bool
	// before has what each candidate replaces, by name.
	before map[string]previous
	// changed is when a candidate was added last.
	changed time.Time
	// watched is set while the producer counts in counts.candidates.
	watched bool
}

// previous is what a candidate replaces: the last good resource, nil if there was none. If not
// known, proxies may have an older one that this control plane has never served.
type previous struct {
	resource *resource.Resource
	known    bool
}

// ancestor is what the first clients of a producer were served before they came here from another
// class.
type ancestor struct {
	set   *resource.Set
	asked []string
	candidates
}

// candidate returns what the resource of a name replaces. It reports false if a voter has
// acknowledged the resource.
func (x *candidates) candidate(name string) (previous, bool) {
	before, ok := x.before[name]
	return before, ok || x.unconfirmed
}

// set adds a candidate. It is none if it is the same as the last good resource.
func (x *candidates) set(r *resource.Resource, before previous) {
	if old, known := x.before[r.Name]; known {
		before = old
	}
	if before.resource != nil && before.resource.Version == r.Version {
		delete(x.before, r.Name)
		return
	}
	if x.before == nil {
		x.before = map[string]previous{}
	}
	x.before[r.Name] = before
}

// noteCandidates notes which resources of the next product differ from what is served. Pusher.mu is
// held.
func (p *Pusher) noteCandidates(pr *producer, next *product) {
	served, asked := (*resource.Set)(nil), []string(nil)
	switch {
	case pr.shelf != nil:
		served, asked = pr.shelf.Set(), pr.shelf.Asked()
	case pr.ancestor != nil:
		served, asked = pr.ancestor.set, pr.ancestor.asked
		pr.candidates.before, pr.candidates.unconfirmed = pr.ancestor.before, pr.ancestor.unconfirmed
		maps.DeleteFunc(pr.candidates.before, func(name string, _ previous) bool { return next.set.Get(name) == nil })
		next.changed = resource.Compare(served, next.set).Updated
	}
	switch {
	case served == nil, pr.voters == 0 && len(next.changed) > 0: // nobody can confirm what is served
		pr.candidates.unconfirmed, pr.candidates.before = true, nil
		pr.candidates.changed = p.clock.Now()
	case len(next.changed) > 0 && !pr.candidates.unconfirmed:
		pr.candidates.changed = p.clock.Now()
		for _, r := range next.changed {
			before := previous{served.Get(r.Name), true}
			if before.resource == nil && pr.gen.Named != nil {
				_, before.known = slices.BinarySearch(asked, r.Name) // else it was not looked up before
			}
			pr.candidates.set(r, before)
		}
	}
	next.changed, pr.ancestor = nil, nil
	p.watch(pr)
}

// watchLimit bounds how long the acknowledgements of all voters are looked at because of a
// candidate that nobody answers for, such as a route that nobody asks for. After that a refusal has
// the voters looked at one by one.
const watchLimit = 10 * time.Minute

// watch counts a producer in counts.candidates while it has candidates that voters may acknowledge.
// Pusher.mu is held.
func (p *Pusher) watch(pr *producer) {
	x := &pr.candidates
	wanted := pr.voters > 0 && (x.unconfirmed || len(x.before) > 0) && p.clock.Now().Sub(x.changed) < watchLimit
	if wanted == x.watched {
		return
	}
	x.watched = wanted
	if wanted {
		p.count.candidates[pr.gen.TypeURL].Add(1)
	} else {
		p.count.candidates[pr.gen.TypeURL].Add(-1)
	}
}

// tidyCandidates forgets candidates that are not made any more, and stops waiting for old ones.
// Pusher.mu is held.
func (p *Pusher) tidyCandidates() {
	for _, pr := range p.producers {
		if !pr.candidates.watched {
			continue
		}
		maps.DeleteFunc(pr.candidates.before, func(name string, _ previous) bool { return pr.set.Get(name) == nil })
		p.watch(pr)
	}
}

// accept ends the candidacy of resources that a voter has acknowledged.
func (pr *producer) accept(parts []*stream.Payload) {
	if len(pr.candidates.before) == 0 {
		return
	}
	for _, part := range parts {
		for _, r := range part.Resources() {
			if now := pr.set.Get(r.Name); now != nil && now.Version == r.Version {
				delete(pr.candidates.before, r.Name)
			}
		}
	}
}

// confirm notes that a voter has acknowledged everything of the type that it asked for and that is
// served now. Resources that were refused stay candidates, for others are served instead of them.
func (pr *producer) confirm(c *Client) {
	refused := func(name string) bool { return pr.votes != nil && pr.votes.refused[name] != nil }
	if pr.gen.Named == nil {
		maps.DeleteFunc(pr.candidates.before, func(name string, _ previous) bool { return !refused(name) })
	}
	if !pr.candidates.unconfirmed {
		return
	}
	pr.candidates.unconfirmed = false
	if pr.gen.Named == nil {
		return
	}
	for _, name := range without(pr.shelf.Asked(), c.subscribed(pr.gen.TypeURL)) {
		if r := pr.set.Get(name); r != nil {
			pr.candidates.set(r, previous{})
		}
	}
}
