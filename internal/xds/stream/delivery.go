package stream

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Delivery is how far one version of a resource has come on a stream.
type Delivery int

const (
	// Unsubscribed means that the client does not subscribe to the resource.
	Unsubscribed Delivery = iota
	// Acknowledged means that the client has acknowledged this version, and no other one is on its
	// way.
	Acknowledged
	// Unsent means that the client has not been sent this version yet.
	Unsent
	// Unanswered means that the client has been sent this version, and has answered neither ACK nor
	// NACK.
	Unanswered
	// Rejected means that the client has rejected this version.
	Rejected
)

// String returns the name of the state in lower case.
func (d Delivery) String() string {
	return [...]string{"unsubscribed", "acknowledged", "unsent", "unanswered", "rejected"}[d]
}

// DeliveryOf returns how far this version of r has come at the client: Unsubscribed, Unsent,
// Rejected, Unanswered or Acknowledged, the first that applies. A resource is Unanswered while any
// response with its name is. Clusters and listeners that were not requested yet are Unsent, because
// the client will request them, unless it names its listeners (gRPC). Other types that were not
// requested, or that streams do not serve, are Unsubscribed.
func (m *Machine) DeliveryOf(r *resource.Resource) Delivery {
	at := m.types.positionOf(r.TypeURL)
	s := m.subscriptionAt(at)
	switch {
	case at < 0:
		return Unsubscribed
	case s == nil:
		if !m.types.list[at].Wildcard || m.types.list[at].Silent || m.subscribesByName() {
			return Unsubscribed
		}
		return Unsent
	case !s.coversName(r.Name):
		return Unsubscribed
	}
	if was := s.previousVersion(r.Name); was == nil || was.Version != r.Version || containsName(s.owed, r.Name) {
		return Unsent
	}
	if _, refused := s.refused[r.Name]; refused {
		return Rejected
	}
	if slices.ContainsFunc(s.flights, func(f flight) bool { return findResource(f.parts, r.Name) != nil }) {
		return Unanswered
	}
	return Acknowledged
}

// RecordSent records in sent, by type URL, the number of the newest response of each subscribed
// type whose part of the newest ResourceSnapshot was sent completely. It does not change entries of
// sent. The number is 0 for a type of which nothing was sent on this stream. Types without
// resources in the ResourceSnapshot are left out.
func (m *Machine) RecordSent(sent map[string]uint64) {
	for _, s := range m.subs {
		if s == nil || !m.serves(s) {
			continue
		}
		if _, recorded := sent[s.URL]; !recorded && s.reached == m.round && !s.isBehind() {
			sent[s.URL] = s.sent.number
		}
	}
}

// UnconfirmedTypes returns the URLs of the subscribed types that are not in sent, and of the types
// whose response in sent (see RecordSent) or an earlier one the client has not answered yet, in
// push order. An answer is an ACK or a NACK. Types without resources in the ResourceSnapshot are
// left out.
func (m *Machine) UnconfirmedTypes(sent map[string]uint64) []string {
	var list []string
	for _, s := range m.subs {
		if s == nil || !m.serves(s) {
			continue
		}
		if number, recorded := sent[s.URL]; !recorded || !s.hasAnswered(number) {
			list = append(list, s.URL)
		}
	}
	return list
}

// serves reports whether the newest ResourceSnapshot has ResourceGroups of the subscription's type.
// It returns false before the first.
func (m *Machine) serves(s *subscription) bool {
	return m.resources != nil && len(m.resources.lists[s.at].groups) > 0
}

// Message returns the error message of the client's last NACK of a type. It returns "" if there was
// none, an ACK followed it, or the type was not requested.
func (m *Machine) Message(typeURL string) string {
	if s := m.subscriptionAt(m.types.positionOf(typeURL)); s != nil {
		return s.message
	}
	return ""
}

// hasAnswered reports whether the client has answered the response with this number and all earlier
// ones. Of a client with maxFlights unanswered responses, earlier ones may have been forgotten;
// then only an ACK of this response or of a later one counts as an answer.
func (s *subscription) hasAnswered(number uint64) bool {
	if len(s.flights) == 0 || s.acked.number >= number && s.flights[0].number > number {
		return true
	}
	return s.flights[0].number > number && len(s.flights) < maxFlights
}
