package stream

// SyncState is how far a client has acknowledged what it was sent.
type SyncState uint8

// The states, the worst last.
const (
	// Synced means that the client has acknowledged the newest response of each type.
	Synced SyncState = iota
	// NotSent means that a type has no response yet, or that the client subscribes to no type.
	NotSent
	// Outdated means that the newest response of a type is not acknowledged.
	Outdated
	// Rejecting means that the last answer of a type was a NACK.
	Rejecting
)

// SyncState returns the worst state of the types that have a subscription. Unlike State it allocates
// nothing.
func (m *Machine) SyncState() SyncState {
	worst, subscribed := Synced, false
	for _, s := range m.subs {
		if s != nil {
			worst, subscribed = max(worst, s.syncState()), true
		}
	}
	if !subscribed {
		return NotSent
	}
	return worst
}

// syncState returns the state of one type: Rejecting while its last rejection is not resolved,
// NotSent before the first response, Outdated if the last response is not acknowledged, else
// Synced.
func (s *subscription) syncState() SyncState {
	switch {
	case s.message != "":
		return Rejecting
	case s.sent.number == 0:
		return NotSent
	case s.sent.number != s.acked.number:
		return Outdated
	default:
		return Synced
	}
}
