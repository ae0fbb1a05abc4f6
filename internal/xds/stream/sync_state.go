package stream

// SyncState is how far a client has acknowledged what it was sent.
type SyncState uint8

// The states, the worst last.
const (
	// Synced means that the client has acknowledged the newest response of each type.
	Synced SyncState = iota
	// NotSent means that a type has no response yet although it needs one, or that the client
	// subscribes to no type.
	NotSent
	// Outdated means that the newest response of a type is not acknowledged.
	Outdated
	// Rejecting means that the last answer of a type was a NACK.
	Rejecting
)

// SyncState returns the worst state of the types that have a subscription, or NotSent if none has.
// Unlike State it allocates nothing.
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
// NotSent before the first response unless it needs none, Outdated if the last response is not
// acknowledged, else Synced.
func (s *subscription) syncState() SyncState {
	switch {
	case s.message != "":
		return Rejecting
	case s.sent.number == 0 && !s.needsNoResponse():
		return NotSent
	case s.sent.number != s.acked.number:
		return Outdated
	default:
		return Synced
	}
}

// needsNoResponse reports whether a Silent type was compared with a ResourceSnapshot and nothing
// was sent: the mesh has no resource of the type, or a client that connects again reported the
// current version of it. A type that is not Silent gets a response also then, an empty one.
func (s *subscription) needsNoResponse() bool {
	return s.Silent && s.base != nil && s.sent.number == 0 && !s.isBehind()
}
