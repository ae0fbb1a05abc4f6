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
	before  uint64 // subscription.reached before the response
	age     int    // in Tick events
}

const (
	// patience is the number of Tick events after which an ACK is no longer awaited. A client
	// that loses an ACK is therefore not blocked.
	patience = 5
	// maxFlights limits the unanswered responses that are stored for a type that is not
	// acknowledged for long. A NACK of an older response is still recorded, but without its
	// resources.
	maxFlights = 16
	// maxAnswered limits the acknowledged responses that are stored for types with RejectsLate.
	maxAnswered = 4
)

// addFlight records a response as unanswered. If maxFlights are recorded already, it forgets the
// oldest.
func (s *subscription) addFlight(f flight) {
	if len(s.flights) == maxFlights {
		s.flights = slices.Delete(s.flights, 0, 1)
	}
	s.flights = append(s.flights, f)
}

// removeFlight removes the flight at index i from s.flights and returns it.
func (s *subscription) removeFlight(i int) flight {
	f := s.flights[i]
	if s.flights = slices.Delete(s.flights, i, i+1); len(s.flights) == 0 {
		s.flights = nil
	}
	return f
}

// awaitsAnswer reports whether any response has been unanswered for less than patience. Older ones
// are not awaited any more.
func (s *subscription) awaitsAnswer() bool {
	return slices.ContainsFunc(s.flights, func(f flight) bool { return f.age < patience })
}

// ackedRound returns the newest round up to which the client has acknowledged everything of the
// type. Responses that have been unanswered for patience are assumed to be acknowledged.
func (s *subscription) ackedRound() uint64 {
	for _, f := range s.flights {
		if f.age < patience {
			return f.before
		}
	}
	return s.reached
}

// processDeltaAnswer records the ACK or NACK of one response and removes it from s.flights. An ACK
// goes to recordAck, a NACK to recordNack with the response. A response in s.answered may be
// rejected late, and its repeated ACK changes nothing. For an unknown nonce, a NACK is still
// recorded, and an ACK emits Stale.
func (m *Machine) processDeltaAnswer(s *subscription, r Request) {
	hasNonce := func(f flight) bool { return f.hasNonce(r.Nonce) }
	i := slices.IndexFunc(s.flights, hasNonce)
	if i < 0 {
		late := slices.IndexFunc(s.answered, hasNonce)
		switch {
		case r.Rejected && late >= 0:
			m.recordNack(s, r, s.answered[late:late+1])
		case r.Rejected: // of a response that is no longer stored
			m.recordNack(s, r, nil)
		case late < 0:
			m.addAction(Stale{TypeURL: s.URL, Nonce: r.Nonce})
		}
		return
	}
	f := s.removeFlight(i)
	if r.Rejected {
		m.recordNack(s, r, []flight{f})
		return
	}
	m.recordAck(s, f)
}

// processSotWAnswer records the ACK or NACK of the newest response, which also answers all earlier
// responses, and clears s.flights. If all are acknowledged already, a NACK concerns s.answered, and
// a repeated ACK changes nothing.
func (m *Machine) processSotWAnswer(s *subscription, r Request) {
	flights := s.flights
	s.flights = nil
	switch {
	case r.Rejected && len(flights) == 0:
		m.recordNack(s, r, s.answered)
	case r.Rejected:
		m.recordNack(s, r, flights)
	case len(flights) > 0:
		for _, f := range flights[:len(flights)-1] {
			s.clearRejections(f)
		}
		m.recordAck(s, flights[len(flights)-1])
	} // else a repeated ACK: Envoy requests endpoints while clusters warm; these follow anyway
}

// processLateAnswer processes a SotW answer to a response that is not the newest. A NACK of a
// stored response is recorded, because it is not repeated. Anything else only emits Stale.
func (m *Machine) processLateAnswer(s *subscription, r Request) {
	i := slices.IndexFunc(s.flights, func(f flight) bool { return f.hasNonce(r.Nonce) })
	if i < 0 || !r.Rejected {
		m.addAction(Stale{TypeURL: s.URL, Nonce: r.Nonce})
		return
	}
	f := s.removeFlight(i)
	m.recordNack(s, r, []flight{f})
}

// recordAck records the ACK of the response f, which is already removed from s.flights, and emits
// it. It deletes older rejections of f's resources and the stored error message, and updates the
// arrivals.
func (m *Machine) recordAck(s *subscription, f flight) {
	s.clearRejections(f)
	if s.RejectsLate {
		s.answered = append(s.answered[max(0, len(s.answered)+1-maxAnswered):], f)
	}
	s.acked, s.message = f.exchange, ""
	m.updateArrivals(s, f)
	m.addAction(Ack{TypeURL: s.URL, Nonce: f.nonce(), Version: f.version, Parts: f.parts})
}

// clearRejections deletes the entries in s.refused of resources that f contains or removes, unless
// a later response than f was rejected. The client has acknowledged f.
func (s *subscription) clearRejections(f flight) {
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
	// MaxNackMessage limits how many bytes of a client's error message are stored, shown and
	// logged.
	MaxNackMessage = 4 << 10
	// maxSearchedMessage limits how many bytes of it are searched for names of resources.
	maxSearchedMessage = 256 << 10
)

// recordNack records a NACK and emits it. Rejected resources are not sent again before they change.
// flights are the responses that the NACK may refer to; nil if they are not known. A NACK of
// clusters also ends the waits for them, except for the rejected ones (deleteArrivals).
//
// The error message is first searched for names, then stripped of dumps and truncated, because the
// client does not limit its length. If it names no resource, all in flights are recorded as
// rejected. Unless the type is a wildcard type, they are then also retried one by one.
func (m *Machine) recordNack(s *subscription, r Request, flights []flight) {
	searched := r.Message[:min(len(r.Message), maxSearchedMessage)]
	r.Message = truncate.Text(withoutDumps(r.Message), MaxNackMessage)
	s.message = r.Message
	version := s.sent.version
	if len(flights) > 0 {
		version = flights[len(flights)-1].version
	}
	found := blamedResources(flights, searched)
	if len(found) == 0 && !s.Wildcard {
		s.addSuspects(flights)
	}
	var sent []*resource.Resource
	for _, f := range flights {
		for _, p := range f.parts {
			sent = append(sent, p.resources...)
			for _, x := range p.resources {
				if len(found) == 0 ||
					slices.ContainsFunc(found, func(b *resource.Resource) bool { return b.Name == x.Name }) {
					s.markRejected(x.Name, f.number)
				}
			}
		}
	}
	if s.role == clusterRole && len(flights) > 0 {
		m.deleteArrivals(flights[len(flights)-1].number, flights, found)
		m.recordUnanswered(s, found)
	}
	m.addAction(
		Nack{TypeURL: s.URL, Nonce: r.Nonce, Version: version, Message: r.Message, Resources: found, Sent: sent},
	)
}

// addSuspects adds all resources of the flights to s.suspects, because it is unknown which of them
// the client rejects.
func (s *subscription) addSuspects(flights []flight) {
	for _, f := range flights {
		for _, p := range f.parts {
			s.suspects = append(s.suspects, p.resources...)
		}
	}
}

// retrySuspect takes the next resource from s.suspects and returns a response with only that
// resource, so that its ACK or NACK concerns no other. It drops suspects that changed, are no
// longer rejected or no longer subscribed to. It returns nil if no suspect is left or an answer is
// awaited.
func (m *Machine) retrySuspect(s *subscription) *draft {
	for len(s.suspects) > 0 && !s.awaitsAnswer() {
		r := s.suspects[0]
		if s.suspects = s.suspects[1:]; len(s.suspects) == 0 {
			s.suspects = nil
		}
		if _, refused := s.refused[r.Name]; refused && s.coversName(r.Name) &&
			m.resources.findResource(s.at, r.Name) == r {
			return &draft{parts: []*Payload{NewPayload([]*resource.Resource{r})}, before: s.reached}
		}
	}
	return nil
}

// markRejected records in s.refused that the client rejected the resource in the response with this
// number, unless a later response is recorded for it.
func (s *subscription) markRejected(name string, number uint64) {
	if s.refused == nil {
		s.refused = map[string]uint64{}
	}
	s.refused[name] = max(s.refused[name], number)
}

// blamedResources returns the resources in the flights whose names an error message contains as
// whole names (mentionsName), sorted by name. Of several versions of a resource it returns the one
// sent last. If the flights contain only one name, its resource is returned even if the message
// does not contain it. The result is empty if the message contains none of several names.
func blamedResources(flights []flight, message string) []*resource.Resource {
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
		if len(byName) == 1 || mentionsName(message, name) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// mentionsName reports whether text contains the name, other than as a part of a longer name
// (isNameByte, continuesName). Occurrences at the edges of text count.
func mentionsName(text, name string) bool {
	for {
		i := strings.Index(text, name)
		if i < 0 {
			return false
		}
		end := i + len(name)
		if (i == 0 || !isNameByte(text[i-1])) && !continuesName(text[end:]) {
			return true
		}
		text = text[i+1:]
	}
}

// isNameByte reports whether a byte is part of a name wherever it occurs: a letter, a digit, "-",
// "_" or "|".
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '|'
}

// continuesName reports whether rest, the text after a name, continues that name. It does if it
// begins with a character of a name, or with a full stop before such a character.
func continuesName(rest string) bool {
	if rest == "" {
		return false
	}
	return isNameByte(rest[0]) || rest[0] == '.' && len(rest) > 1 && isNameByte(rest[1])
}
