package push

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// An EnvoyFilter that shaped a refused resource is suspended, if it protects nothing
// (filter_safety.go): the proxies of the class get the resource without it, so that other changes
// of the resource reach them. The votes, the window and the expiry are those of a quarantine. The
// scope is the class of the proxies that refused: all proxies whose Key, before anything is
// suspended, is the same.

// suspensions are the EnvoyFilters that voters of a class refused, or rather what came of them.
// Pusher.mu guards them.
type suspensions struct {
	key   view.Key
	scope *quarantine.Scope
	// members are the clients of the class, with a vote or without. left is when the last one went;
	// zero while there is one.
	members map[*Client]struct{}
	left    time.Time
	// refused has what was refused, and inForce what is suspended, by the name of the candidate.
	refused map[string]*refusedFilter
	inForce map[string]Quarantined
}

// refusedFilter is an EnvoyFilter in a resource that was refused.
type refusedFilter struct {
	filter    config.Key
	hash      uint64
	candidate quarantine.Candidate
	// versions are those of the resource that were refused, the newest last; at most
	// maxRefusedVersions.
	versions []string
	about    Quarantined
}

const maxRefusedVersions = 16

// suspensionKey returns the Key of the class for which EnvoyFilters are suspended together. That
// proxies go through the steps of a change of mutual TLS makes no difference to it.
func suspensionKey(k view.Key) view.Key {
	k.Easing = ""
	return k
}

// key returns the Key that the client has before EnvoyFilters are suspended. The client must be in
// a class. Pusher.mu is held.
func (c *Client) key() view.Key {
	if c.unsuspended != nil {
		return *c.unsuspended
	}
	return c.class.key
}

// permitted returns a proxy's Key without the EnvoyFilters that are suspended for it. Pusher.mu is
// held.
func (p *Pusher) permitted(k view.Key) view.Key {
	if len(p.suspensions) == 0 {
		return k
	}
	if s := p.suspensions[suspensionKey(k)]; s != nil {
		for name := range s.inForce {
			k.Patches = k.Patches.Without(s.refused[name].filter)
		}
	}
	return k
}

// joinSuspensions makes a client a member of the class of its Key, as far as EnvoyFilters are
// refused there, and returns what else is to be done once the client is in its class. Pusher.mu is
// held.
func (p *Pusher) joinSuspensions(c *Client, k view.Key) (finish func()) {
	var next *suspensions
	if len(p.suspensions) > 0 {
		next = p.suspensions[suspensionKey(k)]
	}
	old := c.suspensions
	if old == next {
		return func() {}
	}
	left := p.leaveSuspensions(c)
	var joined []quarantine.Decision
	if next != nil {
		c.suspensions, next.left = next, time.Time{}
		next.members[c] = struct{}{}
		if c.votes() {
			joined = next.scope.Step(p.clock.Now(), quarantine.Joined{Member: c.member()})
		}
	}
	return func() {
		if old != nil {
			p.enforceSuspensions(old, left)
		}
		if next != nil {
			p.enforceSuspensions(next, joined)
		}
	}
}

// leaveSuspensions takes a client out of the class in which EnvoyFilters are refused, if it is in
// one. Pusher.mu is held.
func (p *Pusher) leaveSuspensions(c *Client) []quarantine.Decision {
	s := c.suspensions
	if s == nil {
		return nil
	}
	c.suspensions = nil
	if delete(s.members, c); len(s.members) == 0 {
		s.left = p.clock.Now()
	}
	if !c.votes() {
		return nil
	}
	return s.scope.Step(p.clock.Now(), quarantine.Left{Connection: c.id})
}

// suspensionsOf returns those of a client's class, and makes them at the first refusal. Pusher.mu
// is held.
func (p *Pusher) suspensionsOf(c *Client) *suspensions {
	if c.suspensions != nil {
		return c.suspensions
	}
	s := &suspensions{
		key: suspensionKey(c.key()), scope: quarantine.New(p.timing), members: map[*Client]struct{}{},
		refused: map[string]*refusedFilter{}, inForce: map[string]Quarantined{},
	}
	p.suspensions[s.key] = s
	now := p.clock.Now()
	for other := range p.clients {
		if other.class == nil || suspensionKey(other.key()) != s.key {
			continue
		}
		other.suspensions = s
		s.members[other] = struct{}{}
		if other.votes() {
			s.scope.Step(now, quarantine.Joined{Member: other.member()})
		}
	}
	p.countObserved()
	return s
}

// refuseFilters counts a refusal against the EnvoyFilters that shaped the resource and may be left
// out of it. It reports whether there are any. Pusher.mu is held.
func (p *Pusher) refuseFilters(c *Client, n Nack, r Refused) bool {
	found := false
	for _, k := range r.From {
		filter := p.snapshot.Config(k)
		if k.Kind != api.EnvoyFilter || filter == nil || !c.class.key.Patches.Has(k) || !droppable(filter) {
			continue
		}
		found = p.refuseFilter(c, n, r, filter) || found
	}
	return found
}

// refuseFilter counts a refusal against one EnvoyFilter. It reports false if a voter of the class
// has acknowledged the resource with the filter. Pusher.mu is held.
func (p *Pusher) refuseFilter(c *Client, n Nack, r Refused, filter *config.Config) bool {
	s, at := p.suspensionsOf(c), p.clock.Now()
	x := quarantine.Candidate{
		Name:    filter.Key.String() + " in " + api.ShortType(n.TypeURL) + " " + r.Name,
		Version: strconv.FormatUint(filter.Hash, 16),
	}
	if s.scope.Accepted(x) {
		return false
	}
	f := s.refused[x.Name]
	if f == nil || f.hash != filter.Hash {
		f = &refusedFilter{filter: filter.Key, hash: filter.Hash, candidate: x, about: Quarantined{
			TypeURL: n.TypeURL, Name: r.Name, Version: r.Version, Scope: s.key, Message: n.Of(r.Name), Replaced: true,
			Suspended: filter.Key, From: []config.Key{filter.Key},
		}}
		s.refused[x.Name] = f
	}
	if !slices.Contains(f.versions, r.Version) {
		f.versions = append(f.versions[max(0, len(f.versions)-maxRefusedVersions+1):], r.Version)
	}
	p.enforceSuspensions(s, s.scope.Step(at, quarantine.Refused{Candidate: x, Connection: c.id}))
	p.hasten()
	return true
}

// acceptFilters ends the suspension, or the observation, of EnvoyFilters in what a client has
// acknowledged. Pusher.mu is held.
func (p *Pusher) acceptFilters(c *Client, a stream.Ack) {
	s := c.suspensions
	if s == nil || !s.scope.Active() {
		return
	}
	for _, part := range a.Parts {
		for _, r := range part.Resources() {
			for _, f := range s.refused {
				if f.about.TypeURL != a.TypeURL || f.about.Name != r.Name {
					continue
				}
				if !slices.Contains(f.versions, r.Version) && !p.shapedNow(c, f, r) {
					continue
				}
				p.enforceSuspensions(s, s.scope.Step(p.clock.Now(), quarantine.Accepted{
					Candidate: f.candidate, Connection: c.id,
				}))
				delete(s.refused, f.candidate.Name)
			}
		}
	}
}

// shapedNow reports whether a resource is what the client's class is to have now, and was shaped by
// the EnvoyFilter as it was refused. Pusher.mu is held.
func (p *Pusher) shapedNow(c *Client, f *refusedFilter, r *resource.Resource) bool {
	if !slices.Contains(r.From, f.filter) {
		return false
	}
	for _, pr := range c.class.producers {
		if pr.gen.TypeURL != r.TypeURL || pr.view == nil {
			continue
		}
		if now := pr.set.Get(r.Name); now == nil || now.Version != r.Version {
			continue
		}
		filter := pr.view.Snapshot.Config(f.filter)
		return filter != nil && filter.Hash == f.hash
	}
	return false
}

// isFilterAccepted reports whether a voter of the class has acknowledged the resource with the
// EnvoyFilter, and then ends the suspension for good. Pusher.mu is held.
func (p *Pusher) isFilterAccepted(s *suspensions, f *refusedFilter) bool {
	for c := range s.members {
		if !c.votes() || c.class == nil {
			continue
		}
		for _, pr := range c.class.producers {
			if pr.gen.TypeURL != f.about.TypeURL {
				continue
			}
			r := pr.set.Get(f.about.Name)
			if r == nil || !p.shapedNow(c, f, r) || !c.acknowledges(r) {
				continue
			}
			s.scope.Step(p.clock.Now(), quarantine.Accepted{Candidate: f.candidate, Connection: c.id})
			delete(s.refused, f.candidate.Name)
			return true
		}
	}
	return false
}

// enforceSuspensions does what was decided for a class. Pusher.mu is held.
func (p *Pusher) enforceSuspensions(s *suspensions, decisions []quarantine.Decision) {
	changed := false
	for _, d := range slices.Clone(decisions) {
		switch d := d.(type) {
		case quarantine.Quarantine:
			f := s.refused[d.Name]
			if f == nil || f.candidate.Version != d.Version || p.isFilterAccepted(s, f) {
				continue
			}
			q := f.about.describe(d.Status)
			s.inForce[d.Name] = q
			changed = true
			p.log.Warn("EnvoyFilter suspended: proxies refuse what it changes", "filter", f.filter,
				"type", api.ShortType(q.TypeURL), "resource", q.Name, "proxies", s.key.Type, "namespace", s.key.Namespace,
				"witnesses", q.Witnesses, "until", q.Until, "attempt", q.Attempt, "message", q.Message)
		case quarantine.Release:
			if _, suspended := s.inForce[d.Name]; !suspended {
				continue
			}
			delete(s.inForce, d.Name)
			changed = true
			p.log.Info("suspension ended", "filter", d.Name, "reason", d.Reason)
		}
	}
	if !changed {
		return
	}
	p.countQuarantined()
	for _, c := range slices.Collect(maps.Keys(s.members)) {
		if c.class != nil {
			p.place(c, c.key())
		}
	}
}

// forgive forgets EnvoyFilters that have changed since they were refused. Their proxies are placed
// again because of the change. Pusher.mu is held.
func (p *Pusher) forgive() {
	ended := false
	for _, s := range p.suspensions {
		for name, f := range s.refused {
			c := p.snapshot.Config(f.filter)
			if c != nil && c.Hash == f.hash {
				continue
			}
			s.scope.Step(p.clock.Now(), quarantine.Offered{Candidate: quarantine.Candidate{Name: name}})
			delete(s.refused, name)
			if _, suspended := s.inForce[name]; suspended {
				delete(s.inForce, name)
				ended = true
			}
		}
	}
	if ended {
		p.countQuarantined()
	}
}

// sweepSuspensions drops those of classes that are gone. Pusher.mu is held.
func (p *Pusher) sweepSuspensions(now time.Time) {
	for k, s := range p.suspensions {
		if len(s.members) == 0 && now.Sub(s.left) >= abandoned {
			delete(p.suspensions, k)
		}
	}
	p.countObserved()
}
