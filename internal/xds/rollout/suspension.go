package rollout

import (
	"slices"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
)

// An EnvoyFilter that shaped a refused resource is suspended if it protects nothing
// (filter_safety.go): the proxies of the class are served the resource without it, so that other
// changes of the resource reach them. Votes, window and expiry work as in a quarantine. Its scope
// is all proxies whose Key, before anything is suspended, is the same.

// withoutSuspended returns k without the EnvoyFilters that are suspended for clients of k, or k
// itself if none are. TransitionModes of k are ignored for the lookup (suspensionKey) and kept in
// the result.
func (r *Rollout) withoutSuspended(k view.Key) view.Key {
	if len(r.suspensions) == 0 {
		return k
	}
	if s := r.suspensions[suspensionKey(k)]; s != nil {
		for name := range s.inForce {
			k.EnvoyFilterPatches = k.EnvoyFilterPatches.WithoutObject(s.refused[name].filter)
		}
	}
	return k
}

// joinSuspensions makes a client a member of the suspensions for Key k, if EnvoyFilters were
// refused there, and removes it from its previous ones. It does nothing if they are the same.
func (r *Rollout) joinSuspensions(c *Client, k view.Key) {
	var next *suspensions
	if len(r.suspensions) > 0 {
		next = r.suspensions[suspensionKey(k)]
	}
	if c.suspensions == next {
		return
	}
	r.leaveSuspensions(c)
	if next != nil {
		r.addMember(next, c)
	}
}

// addMember makes a client, which must be a member of no suspensions, a member of s. If the client
// is a voter, the quarantine of s learns that it has joined, and its decisions are carried out.
func (r *Rollout) addMember(s *suspensions, c *Client) {
	c.suspensions = s
	s.members[c] = struct{}{}
	s.left = time.Time{}
	if c.isVoter() {
		r.enforceSuspensions(s, s.scope.Step(r.now, quarantine.Joined{Member: c.member()}))
	}
}

// leaveSuspensions removes a client and its vote from its suspensions. It does nothing if the
// client is a member of none.
func (r *Rollout) leaveSuspensions(c *Client) {
	s := c.suspensions
	if s == nil {
		return
	}
	c.suspensions = nil
	if delete(s.members, c); len(s.members) == 0 {
		s.left = r.now
	}
	if c.isVoter() {
		r.enforceSuspensions(s, s.scope.Step(r.now, quarantine.Left{Connection: c.ID}))
	}
}

// suspensionsOf returns the suspensions that the client is a member of. If there are none, it
// creates and registers them. All clients that have a class and the same Key before suspensions
// become members, also c.
func (r *Rollout) suspensionsOf(c *Client) *suspensions {
	if c.suspensions != nil {
		return c.suspensions
	}
	s := newSuspensions(suspensionKey(c.unsuspendedKey()), r.options.Quarantine)
	r.suspensions[s.key] = s
	for other := range r.clients {
		if other.class != nil && suspensionKey(other.unsuspendedKey()) == s.key {
			r.addMember(s, other)
		}
	}
	return s
}

// refuseFilters records a refusal of a resource against each EnvoyFilter that it was generated with
// and that may be left out (isDroppable). It reports whether it recorded any; otherwise the refusal
// must be recorded against the resource.
func (r *Rollout) refuseFilters(c *Client, typeURL string, refused RefusedResource) bool {
	found := false
	for _, k := range refused.From {
		filter := r.snapshot.Config(k)
		if k.Kind != api.EnvoyFilter || filter == nil || !c.class.key.EnvoyFilterPatches.Has(k) ||
			!isDroppable(filter) {
			continue
		}
		found = r.refuseFilter(c, typeURL, refused, filter) || found
	}
	return found
}

// refuseFilter records a refusal against one EnvoyFilter in a resource, and carries out the
// decisions. It returns false and records no refusal if a voter has acknowledged the resource with
// this version of the filter. A refusal of another version of the filter is replaced.
func (r *Rollout) refuseFilter(c *Client, typeURL string, refused RefusedResource, filter *config.Config) bool {
	s := r.suspensionsOf(c)
	x := quarantine.Candidate{
		Name:    filter.Key.String() + " in " + api.ShortType(typeURL) + " " + refused.Name,
		Version: strconv.FormatUint(filter.Hash, 16),
	}
	if s.scope.Accepted(x) {
		return false
	}
	f := s.refused[x.Name]
	if f == nil || f.hash != filter.Hash {
		f = &refusedFilter{filter: filter.Key, hash: filter.Hash, candidate: x, about: Quarantined{
			TypeURL: typeURL, Name: refused.Name, Version: refused.Version, Scope: s.key, Message: refused.Message,
			Replaced: true, Suspended: filter.Key, From: []config.Key{filter.Key},
		}}
		s.refused[x.Name] = f
	}
	f.addVersion(refused.Version)
	r.enforceSuspensions(s, s.scope.Step(r.now, quarantine.Refused{Candidate: x, Connection: c.ID}))
	return true
}

// acceptFilters ends the suspension, or the observation, of EnvoyFilters in the resources that a
// voter has acknowledged. The acknowledged resource must be a refused version, or be generated with
// the refused filter (isShapedBy). It does nothing if no filter is observed. Several filters may be
// refused because of one resource.
func (r *Rollout) acceptFilters(e Accepted) {
	s := e.Client.suspensions
	if s == nil || !s.scope.Active() {
		return
	}
	for _, part := range e.Parts {
		for _, got := range part.Resources() {
			for _, f := range s.refused {
				if f.about.TypeURL != e.TypeURL || f.about.Name != got.Name {
					continue
				}
				if slices.Contains(f.versions, got.Version) || r.isShapedBy(e.Client.class, f, got) {
					r.acceptFilter(s, f, e.Client)
				}
			}
		}
	}
}

// acceptFilter records that the voter by has acknowledged a resource with a refused EnvoyFilter.
// This ends the filter's suspension in this resource, and its refusals are forgotten.
func (r *Rollout) acceptFilter(s *suspensions, f *refusedFilter, by *Client) {
	r.enforceSuspensions(s, s.scope.Step(r.now, quarantine.Accepted{Candidate: f.candidate, Connection: by.ID}))
	delete(s.refused, f.candidate.Name)
}

// isShapedBy reports whether got is the newest version of its resource in class cl, and was
// generated with the EnvoyFilter in the version that was refused.
func (r *Rollout) isShapedBy(cl *class, f *refusedFilter, got *resource.Resource) bool {
	if !slices.Contains(got.From, f.filter) {
		return false
	}
	for _, pr := range cl.producers {
		if pr.gen.TypeURL != got.TypeURL || pr.view == nil {
			continue
		}
		if now := pr.set.Get(got.Name); now == nil || now.Version != got.Version {
			continue
		}
		filter := pr.view.Snapshot.Config(f.filter)
		return filter != nil && filter.Hash == f.hash
	}
	return false
}

// enforceSuspensions carries out decisions about the EnvoyFilters of s. A release takes effect at
// once: it emits QuarantineEnded and has members placed again (moveMembers). A suspension does not
// begin here: it emits FindAcknowledged, because a voter may have acknowledged the resource with
// the EnvoyFilter. A suspension of another version of the filter, and a release of a filter that is
// not suspended, are dropped.
func (r *Rollout) enforceSuspensions(s *suspensions, decisions []quarantine.Decision) {
	r.quarantineMoved = true
	for _, d := range slices.Clone(decisions) {
		switch d := d.(type) {
		case quarantine.Quarantine:
			if f := s.refused[d.Name]; f != nil && f.candidate.Version == d.Version {
				r.emitAction(FindAcknowledged{&Question{decision: d, suspensions: s}, r.shapedNow(s, f)})
			}
		case quarantine.Release:
			if q, suspended := s.inForce[d.Name]; suspended {
				delete(s.inForce, d.Name)
				r.emitAction(QuarantineEnded{
					TypeURL: q.TypeURL, Name: q.Name, Version: q.Version, Suspended: q.Suspended, Reason: d.Reason,
				})
				r.moveMembers(s)
			}
		}
	}
}

// shapedNow returns the voters among the members of s whose current resource was generated with the
// refused EnvoyFilter, each with that resource, or nil if there are none.
func (r *Rollout) shapedNow(s *suspensions, f *refusedFilter) (list []Acknowledgement) {
	for c := range s.members {
		if !c.isVoter() || c.class == nil {
			continue
		}
		for _, pr := range c.class.producers {
			if pr.gen.TypeURL != f.about.TypeURL {
				continue
			}
			if now := pr.set.Get(f.about.Name); now != nil && r.isShapedBy(c.class, f, now) {
				list = append(list, Acknowledgement{c, now})
			}
		}
	}
	return list
}

// answerSuspension suspends an EnvoyFilter, emits QuarantineBegan and places the members again,
// unless by is a member that has acknowledged a resource with the filter. Then it ends the
// observation of the filter for good. It does nothing if the decision is outdated.
func (r *Rollout) answerSuspension(s *suspensions, d quarantine.Quarantine, by *Client) {
	f := s.refused[d.Name]
	switch {
	case f == nil || f.candidate.Version != d.Version || !s.scope.Quarantined(d.Candidate): // ended in the meantime
	case by != nil && by.suspensions == s:
		r.acceptFilter(s, f, by)
	default:
		q := f.about.withStatus(d.Status)
		s.inForce[d.Name] = q
		r.emitAction(QuarantineBegan{q})
		r.moveMembers(s)
	}
}

// moveMembers adds all members of s, but no other clients, to r.moving, so that they are placed
// again without, or with, the suspended EnvoyFilters. It has the quarantined resources counted
// again.
func (r *Rollout) moveMembers(s *suspensions) {
	r.recount = true
	for c := range s.members {
		r.moving[c] = struct{}{}
	}
}

// forgetChangedFilters ends the suspension and the observation of EnvoyFilters that were changed or
// deleted since they were refused. It emits nothing, and does not place their proxies again: the
// change does.
func (r *Rollout) forgetChangedFilters() {
	for _, s := range r.suspensions {
		for name, f := range s.refused {
			if now := r.snapshot.Config(f.filter); now != nil && now.Hash == f.hash {
				continue
			}
			s.scope.Step(r.now, quarantine.Offered{Candidate: quarantine.Candidate{Name: name}})
			delete(s.refused, name)
			if _, suspended := s.inForce[name]; suspended {
				delete(s.inForce, name)
				r.recount = true
			}
		}
	}
}
