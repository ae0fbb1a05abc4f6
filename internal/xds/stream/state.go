package stream

import (
	"maps"
	"slices"
)

// TypeState is the state of one type on a stream, for debug pages. It is a copy; Names is shared
// and must not be changed.
type TypeState struct {
	TypeURL  string
	Wildcard bool
	// Names are the names that the client subscribes to besides a wildcard, sorted.
	Names []string
	// Excludes reports whether the wildcard does not cover a name, because the client fetches the
	// resource on demand. It is nil if the wildcard covers all resources.
	Excludes func(name string) bool
	// SentNonce and SentVersion belong to the newest response. AckedNonce and AckedVersion belong
	// to the newest response that was acknowledged.
	SentNonce, SentVersion   string
	AckedNonce, AckedVersion string
	// NeedsNoResponse is set if nothing was sent because there is nothing that the client lacks,
	// and clients of the type do not expect an empty response.
	NeedsNoResponse bool
	// Unanswered is the number of recent responses without an ACK or NACK, at most maxFlights.
	Unanswered int
	// Message is the error of the last NACK, or "" after an ACK. Refused are the names of the
	// resources whose last sent version the client rejected.
	Message string
	Refused []string
	// Lingering is the number of deleted resources that the client may still use.
	Lingering int
	// Waiting are the names of resources whose newest version is held back until the client has the
	// clusters that it refers to, sorted.
	Waiting []string
}

// State returns the state of each type that has a subscription, in push order. The lists of names
// may be shared and must not be changed.
func (m *Machine) State() []TypeState {
	list := make([]TypeState, 0, len(m.subs))
	for _, s := range m.subs {
		if s == nil {
			continue
		}
		t := TypeState{
			TypeURL:      s.URL,
			Wildcard:     s.wildcard,
			Names:        s.names,
			SentNonce:    s.sent.nonce(),
			SentVersion:  s.sent.version,
			AckedNonce:   s.acked.nonce(),
			AckedVersion: s.acked.version,

			NeedsNoResponse: s.needsNoResponse(),
			Unanswered:      len(s.flights),
			Message:         s.message,
			Lingering:       len(s.gone),
		}
		if len(s.refused) > 0 {
			t.Refused = slices.Sorted(maps.Keys(s.refused))
		}
		if o := s.onDemand; o.fetched != nil {
			t.Excludes = o.excludes
		}
		if s.refersToClusters() && len(s.frozen) > 0 {
			t.Waiting = slices.Sorted(maps.Keys(s.frozen))
		}
		list = append(list, t)
	}
	return list
}

// Names returns the names of a type that the client subscribes to, sorted, or nil if it did not
// request the type. The list is shared and must not be changed.
func (m *Machine) Names(typeURL string) []string {
	if s := m.subscriptionAt(m.types.positionOf(typeURL)); s != nil {
		return s.names
	}
	return nil
}

// IsIdle reports whether the client was sent all of the newest ResourceSnapshot and no Send is
// being written. It ignores unanswered responses. It returns true before the first ResourceSnapshot
// unless a Send is being written.
func (m *Machine) IsIdle() bool {
	if m.writing {
		return false
	}
	for _, s := range m.subs {
		if s != nil && m.resources != nil && len(m.resources.lists[s.at].groups) > 0 &&
			(s.reached != m.round || s.isBehind()) {
			return false
		}
	}
	return true
}

// HasAnsweredAll reports whether IsIdle is true and the client has answered every response, by an
// ACK or a NACK. Unlike HasConverged it waits without a limit, and for the ACKs of CDS too.
func (m *Machine) HasAnsweredAll() bool {
	for _, s := range m.subs {
		if s != nil && len(s.flights) > 0 {
			return false
		}
	}
	return m.IsIdle()
}

// UnansweredTypes returns, in push order, the URLs of the types that have a response that the
// client has not answered, or something in the newest ResourceSnapshot that it was not sent yet.
// Types without resources in the newest ResourceSnapshot have only the former.
func (m *Machine) UnansweredTypes() []string {
	var list []string
	for _, s := range m.subs {
		if s != nil && (len(s.flights) > 0 || m.serves(s) && (s.reached != m.round || s.isBehind())) {
			list = append(list, s.URL)
		}
	}
	return list
}

// HasConverged reports whether IsIdle is true and no response has been unanswered for less than
// patience. Responses of CDS are exempt, because Envoy holds back their ACKs while any cluster
// warms. It does not report whether the client accepted the responses.
func (m *Machine) HasConverged() bool {
	for _, s := range m.subs {
		if s != nil && !s.isUnpaced() && s.awaitsAnswer() {
			return false
		}
	}
	return m.IsIdle()
}
