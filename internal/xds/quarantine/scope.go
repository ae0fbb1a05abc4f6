package quarantine

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Options are the durations of a scope. A zero field means its default.
type Options struct {
	// Window is how long refusals are collected before a decision (default 1 s). After a quarantine
	// it is at least a tenth of that quarantine's duration. So even a slow proxy can accept in
	// time, however often hostile proxies refuse.
	Window time.Duration
	// Retry is the duration of the first quarantine of a candidate (default 5 s). Each further
	// quarantine lasts twice as long.
	Retry time.Duration
	// MaxRetry bounds the duration of a quarantine (default 5 min). It is at least Retry.
	MaxRetry time.Duration
}

// The defaults of Options.
const (
	DefaultWindow   = time.Second
	DefaultRetry    = 5 * time.Second
	DefaultMaxRetry = 5 * time.Minute
)

// withDefaults returns o with the default for each duration that is zero, and with a MaxRetry of at
// least Retry.
func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, DefaultWindow)
	o.Retry = cmp.Or(o.Retry, DefaultRetry)
	o.MaxRetry = max(cmp.Or(o.MaxRetry, DefaultMaxRetry), o.Retry)
	return o
}

// maxAccepted bounds how many accepted candidates are remembered. The oldest is evicted first.
const maxAccepted = 1024

// Scope is the state machine of one scope of proxies. It must be created with [New].
type Scope struct {
	options  Options
	voters   electorate
	entries  map[string]*entry // by name
	accepted map[Candidate]struct{}
	order    []Candidate // of accepted, oldest first
	out      []Decision
}

// entry is the state of a candidate that was refused.
type entry struct {
	version string
	refused witnesses
	// decide is the end of the observation window. It is zero while there are no refusals.
	decide time.Time
	// quarantine is nil while the candidate is offered.
	quarantine *Status
	attempts   int
	// lasts is the planned duration of the last quarantine; zero before the first.
	lasts time.Duration
	// idle is when the candidate ceased to be quarantined or refused; zero while it is either.
	idle time.Time
}

// New returns a Scope without members and candidates. Durations of o that are zero get their
// defaults.
func New(o Options) *Scope {
	return &Scope{
		options: o.withDefaults(), voters: electorate{members: map[string]string{}, identities: map[string]int{}},
		entries: map[string]*entry{}, accepted: map[Candidate]struct{}{},
	}
}

// Step applies an event at the time now, which must not decrease, and returns the resulting
// decisions to quarantine and release. Joined, Accepted, and Offered of another version can only
// release, and Left can only quarantine. Decisions are sorted by name, but on a Tick all releases
// precede the quarantines. The list is valid until the next call. Refusals and acceptances by
// connections that are not members are ignored.
func (s *Scope) Step(now time.Time, e Event) []Decision {
	s.out = s.out[:0]
	switch e := e.(type) {
	case Joined:
		s.voters.add(e.Member)
		s.forEachEntry(now, s.reviewQuarantine)
	case Left:
		s.voters.remove(e.Connection)
		s.forEachEntry(now, func(_ time.Time, _ string, x *entry) {
			if x.quarantine == nil {
				delete(x.refused, e.Connection)
			}
		})
		s.forEachEntry(now, s.decideEntry)
	case Refused:
		s.recordRefusal(now, e)
	case Accepted:
		s.recordAcceptance(now, e)
	case Offered:
		if x := s.entries[e.Name]; x != nil && x.version != e.Version {
			s.releaseEntry(now, e.Name, x, Outdated)
			delete(s.entries, e.Name)
		}
	case Tick:
		s.forEachEntry(now, s.expireEntry)
		s.forEachEntry(now, s.decideEntry)
	}
	return s.out
}

// forEachEntry calls do with now, the name and the entry of every refused candidate, sorted by
// name. do may delete its entry.
func (s *Scope) forEachEntry(now time.Time, do func(time.Time, string, *entry)) {
	if len(s.entries) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		do(now, name, s.entries[name])
	}
}

// recordRefusal records a voter's refusal of a candidate and decides about it (decideEntry). The
// first refusal starts its window. Another version of the name is first released as Outdated and
// forgotten. It ignores connections that are not voters, and candidates that were accepted before.
func (s *Scope) recordRefusal(now time.Time, e Refused) {
	identity, member := s.voters.members[e.Connection]
	if _, good := s.accepted[e.Candidate]; !member || good {
		return
	}
	x := s.entries[e.Name]
	if x == nil || x.version != e.Version {
		if x != nil {
			s.releaseEntry(now, e.Name, x, Outdated)
		}
		x = &entry{version: e.Version}
		s.entries[e.Name] = x
	}
	if len(x.refused) == 0 {
		x.decide = now.Add(s.windowOf(x))
	}
	x.refused = x.refused.add(Member{e.Connection, identity})
	if x.quarantine != nil {
		x.quarantine.Witnesses, x.quarantine.Connections = x.refused.identities(), len(x.refused)
	}
	s.decideEntry(now, e.Name, x)
}

// recordAcceptance releases the candidate if it is quarantined, deletes its refusals, and records
// that it must not be quarantined again. It ignores connections that are not members; another
// version of the name stays as it is.
func (s *Scope) recordAcceptance(now time.Time, e Accepted) {
	if _, member := s.voters.members[e.Connection]; !member {
		return
	}
	if x := s.entries[e.Name]; x != nil && x.version == e.Version {
		s.releaseEntry(now, e.Name, x, AcceptedByMember)
		delete(s.entries, e.Name)
	}
	s.recordAccepted(e.Candidate)
}

// recordAccepted records that a candidate must not be quarantined again. It evicts the oldest
// accepted candidate if there are maxAccepted.
func (s *Scope) recordAccepted(c Candidate) {
	if _, known := s.accepted[c]; known {
		return
	}
	if len(s.order) == maxAccepted {
		delete(s.accepted, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.accepted[c] = struct{}{}
	s.order = append(s.order, c)
}

// decideEntry quarantines a candidate if its refusals form a quorum, and either its window is over
// or all members have refused it. Each further quarantine lasts twice as long, up to MaxRetry. A
// candidate without refusals becomes idle. It does nothing if the candidate is quarantined already.
func (s *Scope) decideEntry(now time.Time, name string, x *entry) {
	switch {
	case x.quarantine != nil:
		return
	case len(x.refused) == 0:
		if x.decide = (time.Time{}); x.idle.IsZero() {
			x.idle = now
		}
		return
	}
	x.idle = time.Time{}
	if now.Before(x.decide) && len(x.refused) < len(s.voters.members) || !s.voters.isQuorum(x.refused) {
		return
	}
	x.lasts = min(max(2*x.lasts, s.options.Retry), s.options.MaxRetry)
	x.attempts++
	x.quarantine = &Status{
		Witnesses:   x.refused.identities(),
		Connections: len(x.refused),
		Since:       now,
		Until:       now.Add(x.lasts),
		Attempt:     x.attempts,
	}
	s.out = append(s.out, Quarantine{Candidate{name, x.version}, *x.quarantine})
}

// expireEntry releases a candidate whose quarantine is over. It deletes a candidate that has been
// idle for MaxRetry. It emits the release (Expired) and clears the refusals. The idle time begins
// with the release.
func (s *Scope) expireEntry(now time.Time, name string, x *entry) {
	switch {
	case x.quarantine != nil && !now.Before(x.quarantine.Until):
		x.refused = nil // all members are offered the candidate again
		s.releaseEntry(now, name, x, Expired)
	case !x.idle.IsZero() && now.Sub(x.idle) >= s.options.MaxRetry:
		delete(s.entries, name)
	}
}

// reviewQuarantine releases a candidate whose witnesses are no longer a quorum (QuorumLost). It
// drops witnesses that have left, and starts a new window for the others, if any. It does nothing
// if x is not quarantined or has a quorum.
func (s *Scope) reviewQuarantine(now time.Time, name string, x *entry) {
	if x.quarantine == nil || s.voters.isQuorum(x.refused) {
		return
	}
	for connection := range x.refused {
		if _, present := s.voters.members[connection]; !present {
			delete(x.refused, connection)
		}
	}
	x.decide = now.Add(s.windowOf(x))
	s.releaseEntry(now, name, x, QuorumLost)
}

// slowShare is the minimum length of the next observation window, as a divisor of the quarantine's
// duration.
const slowShare = 10

// windowOf returns for how long refusals of a candidate are collected: Window, but at least a tenth
// (slowShare) of the duration of its last quarantine.
func (s *Scope) windowOf(x *entry) time.Duration { return max(s.options.Window, x.lasts/slowShare) }

// releaseEntry ends the quarantine of x and emits a Release with the reason why. If x has no
// refusals left, it is idle from now on, otherwise not idle. It does nothing if x is not
// quarantined.
func (s *Scope) releaseEntry(now time.Time, name string, x *entry, why Reason) {
	if x.quarantine == nil {
		return
	}
	x.quarantine = nil
	if x.idle = (time.Time{}); len(x.refused) == 0 {
		x.decide, x.idle = time.Time{}, now
	}
	s.out = append(s.out, Release{Candidate{name, x.version}, why})
}

// Accepted reports whether a member has accepted the candidate and it has not been evicted from the
// list of accepted candidates.
func (s *Scope) Accepted(c Candidate) bool {
	_, good := s.accepted[c]
	return good
}

// Names returns the names of the candidates that were refused and neither accepted nor replaced by
// another version, sorted. Quarantined candidates are included.
func (s *Scope) Names() []string { return slices.Sorted(maps.Keys(s.entries)) }

// Active reports whether Names would return any name.
func (s *Scope) Active() bool { return len(s.entries) > 0 }

// Next returns the earliest time after now at which a Tick changes something: the end of a window,
// a quarantine or an idle time. It returns zero if there is none.
func (s *Scope) Next(now time.Time) time.Time {
	var next time.Time
	for _, x := range s.entries {
		at := x.decide
		switch {
		case x.quarantine != nil:
			at = x.quarantine.Until
		case !x.idle.IsZero():
			at = x.idle.Add(s.options.MaxRetry)
		}
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Quarantined reports whether the candidate is quarantined in this version.
func (s *Scope) Quarantined(c Candidate) bool {
	x := s.entries[c.Name]
	return x != nil && x.version == c.Version && x.quarantine != nil
}
