package stream

import (
	"maps"
	"slices"
)

// TypeState is what a stream knows of one type, for debug pages. It is a copy; Names is shared and must not be changed.
type TypeState struct {
	TypeURL  string
	Wildcard bool
	// Names are those subscribed to besides a wildcard, sorted.
	Names []string
	// SentNonce and SentVersion are of the newest response, AckedNonce and AckedVersion of the newest that was taken.
	SentNonce, SentVersion   string
	AckedNonce, AckedVersion string
	// Unanswered is the number of responses that the client has neither taken nor refused.
	Unanswered int
	// Message is the last refusal's, "" after an ACK. Refused are the resources that the client does not have as they
	// were last sent.
	Message string
	Refused []string
	// Lingering is the number of resources that are gone and that the client may still use.
	Lingering int
	// Waiting are resources whose newest version is kept back until the client has shown that it has the clusters that
	// they refer to, sorted.
	Waiting []string
}

// State tells what the stream knows of each type that its client asked for, in push order.
func (m *Machine) State() []TypeState {
	var list []TypeState
	for _, s := range m.subs {
		if s == nil {
			continue
		}
		t := TypeState{
			TypeURL: s.URL, Wildcard: s.wildcard, Names: s.names,
			SentNonce: s.sent.nonce(), SentVersion: s.sent.version, AckedNonce: s.acked.nonce(), AckedVersion: s.acked.version,
			Unanswered: len(s.flights), Message: s.message, Refused: slices.Sorted(maps.Keys(s.refused)), Lingering: len(s.gone),
		}
		if s.refers() {
			t.Waiting = slices.Sorted(maps.Keys(s.frozen))
		}
		list = append(list, t)
	}
	return list
}

// Names gives the names of a type that the client subscribes to, sorted. The list is shared and must not be changed.
func (m *Machine) Names(typeURL string) []string {
	if s := m.sub(m.types.place(typeURL)); s != nil {
		return s.names
	}
	return nil
}

// Idle says that nothing is being sent or waits to be: the client was sent all of the newest World.
func (m *Machine) Idle() bool {
	if m.writing {
		return false
	}
	for _, s := range m.subs {
		if s != nil && m.world != nil && len(m.world.shelves[s.at]) > 0 && (s.reached != m.round || s.behind()) {
			return false
		}
	}
	return true
}

// Converged says that the client was sent all of the newest World, and has answered. Clusters count
// as answered when they are sent, for what answers them may be held back for as long as one of them warms.
func (m *Machine) Converged() bool {
	for _, s := range m.subs {
		if s != nil && !s.unpaced() && s.waiting() {
			return false
		}
	}
	return m.Idle()
}
