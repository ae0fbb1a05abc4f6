package stream

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// flight is a response that the client has not answered yet.
type flight struct {
	exchange
	parts   []*Payload
	removed []string
	before  uint64 // the round that the subscription had reached before it
	age     int    // in Overdue events
}

const (
	// patience is for how many Overdue events an ACK is waited for, so that a client that loses one is not cut off.
	patience = 5
	// maxFlights bounds what is remembered of a type that may go unacknowledged for long. Of older ones a refusal is
	// still recorded, but no longer which resources it is about.
	maxFlights = 16
)

func (s *subscription) launch(f flight) {
	if len(s.flights) == maxFlights {
		s.flights = slices.Delete(s.flights, 0, 1)
	}
	s.flights = append(s.flights, f)
}

// land takes a flight off the list. What is empty takes no memory.
func (s *subscription) land(i int) flight {
	f := s.flights[i]
	if s.flights = slices.Delete(s.flights, i, i+1); len(s.flights) == 0 {
		s.flights = nil
	}
	return f
}

// waiting says that an answer is due from the client.
func (s *subscription) waiting() bool {
	return slices.ContainsFunc(s.flights, func(f flight) bool { return f.age < patience })
}

// settled gives the newest round up to which the client has shown that it has everything.
func (s *subscription) settled() uint64 {
	for _, f := range s.flights {
		if f.age < patience {
			return f.before
		}
	}
	return s.reached
}

// answeredDelta takes in the ACK or NACK of one response.
func (m *Machine) answeredDelta(s *subscription, r Request) {
	i := slices.IndexFunc(s.flights, func(f flight) bool { return f.is(r.Nonce) })
	if i < 0 {
		if r.Rejected { // of one too old to be remembered
			m.refuse(s, r, nil)
		} else {
			m.do(Stale{TypeURL: s.URL, Nonce: r.Nonce})
		}
		return
	}
	f := s.land(i)
	if r.Rejected {
		m.refuse(s, r, []flight{f})
		return
	}
	m.accept(s, f)
}

// answeredSotW takes in the ACK or NACK of the newest response, which answers for all before it.
func (m *Machine) answeredSotW(s *subscription, r Request) {
	flights := s.flights
	s.flights = nil
	switch {
	case r.Rejected:
		m.refuse(s, r, flights)
	case len(flights) > 0:
		for _, f := range flights[:len(flights)-1] {
			s.mend(f)
		}
		m.accept(s, flights[len(flights)-1])
	} // else it repeats an ACK, as Envoy does while clusters warm: what it hopes for follows its cluster anyway
}

// answeredLate takes in an answer to a response that is not the newest. That something was refused is not said again.
func (m *Machine) answeredLate(s *subscription, r Request) {
	i := slices.IndexFunc(s.flights, func(f flight) bool { return f.is(r.Nonce) })
	if i < 0 || !r.Rejected {
		m.do(Stale{TypeURL: s.URL, Nonce: r.Nonce})
		return
	}
	f := s.land(i)
	m.refuse(s, r, []flight{f})
}

func (m *Machine) accept(s *subscription, f flight) {
	s.mend(f)
	s.acked, s.message = f.exchange, ""
	m.taken(s, f)
	m.do(Ack{TypeURL: s.URL, Nonce: f.nonce(), Version: f.version, Parts: f.parts})
}

// mend forgets that resources were refused before which the client has now taken, or need not have any more.
func (s *subscription) mend(f flight) {
	if len(s.refused) == 0 {
		return
	}
	taken := func(name string) {
		if number, ok := s.refused[name]; ok && number < f.number {
			delete(s.refused, name)
		}
	}
	for _, n := range f.removed {
		taken(n)
	}
	for _, p := range f.parts {
		for _, r := range p.resources {
			taken(r.Name)
		}
	}
}

const (
	// MaxNackMessage bounds, in bytes, how much of a client's error message is kept, shown and logged.
	MaxNackMessage = 4 << 10
	// maxSearchedMessage bounds, in bytes, how much of it is searched for names of resources.
	maxSearchedMessage = 256 << 10
)

// refuse records a NACK. What was refused is not sent again before it changes. flights are those that it may be about. The
// error message is searched for names first, then freed of dumps and truncated, because it is the client's and has no bound of
// its own.
func (m *Machine) refuse(s *subscription, r Request, flights []flight) {
	searched := r.Message[:min(len(r.Message), maxSearchedMessage)]
	r.Message = truncate.Text(withoutDumps(r.Message), MaxNackMessage)
	s.message = r.Message
	version := s.sent.version
	if len(flights) > 0 {
		version = flights[len(flights)-1].version
	}
	found := blamed(flights, searched)
	if len(found) == 0 && !s.Wildcard {
		s.suspect(flights)
	}
	var sent []*resource.Resource
	for _, f := range flights {
		for _, p := range f.parts {
			sent = append(sent, p.resources...)
			for _, x := range p.resources {
				if len(found) == 0 || slices.ContainsFunc(found, func(b *resource.Resource) bool { return b.Name == x.Name }) {
					s.refusal(x.Name, f.number)
				}
			}
		}
	}
	if s.role == clusterRole && len(flights) > 0 {
		m.shown(flights[len(flights)-1].number, flights, found)
		m.retried(s, found)
	}
	m.do(Nack{TypeURL: s.URL, Nonce: r.Nonce, Version: version, Message: r.Message, Resources: found, Sent: sent})
}

// suspect notes that of what was sent it is not known which the client refuses.
func (s *subscription) suspect(flights []flight) {
	for _, f := range flights {
		for _, p := range f.parts {
			s.suspects = append(s.suspects, p.resources...)
		}
	}
}

// try sends the next suspect by itself: what comes back for it is about nothing else, and those that are good get through.
// One that changed meanwhile was sent, and one that the client has given up is not wanted.
func (m *Machine) try(s *subscription) *draft {
	for len(s.suspects) > 0 && !s.waiting() {
		r := s.suspects[0]
		if s.suspects = s.suspects[1:]; len(s.suspects) == 0 {
			s.suspects = nil
		}
		if _, refused := s.refused[r.Name]; refused && s.covers(r.Name) && m.world.get(s.at, r.Name) == r {
			return &draft{parts: []*Payload{NewPayload([]*resource.Resource{r})}, before: s.reached}
		}
	}
	return nil
}

func (s *subscription) refusal(name string, number uint64) {
	if s.refused == nil {
		s.refused = map[string]uint64{}
	}
	s.refused[name] = max(s.refused[name], number)
}

// blamed finds the resources that an error message names, newest version of each. A response of one resource needs no
// naming.
func blamed(flights []flight, message string) []*resource.Resource {
	byName := map[string]*resource.Resource{}
	for _, f := range flights {
		for _, p := range f.parts {
			for _, r := range p.resources {
				byName[r.Name] = r
			}
		}
	}
	var found []*resource.Resource
	for name, r := range byName {
		if len(byName) == 1 || mentions(message, name) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// mentions says whether a text has the name in it, not just as a part of a longer name.
func mentions(text, name string) bool {
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return false
		}
		end := i + len(name)
		if (i == 0 || !inName(text[i-1])) && !goesOn(text[end:]) {
			return true
		}
		text = text[i+1:]
	}
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '|'
}

// goesOn says whether what follows a name belongs to it. A full stop does if more follows.
func goesOn(rest string) bool {
	if rest == "" {
		return false
	}
	return inName(rest[0]) || rest[0] == '.' && len(rest) > 1 && inName(rest[1])
}
