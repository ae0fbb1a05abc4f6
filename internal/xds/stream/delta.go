package stream

// wildcardName is the resource name that subscribes to all resources of a type.
const wildcardName = "*"

// requestDelta processes a DeltaDiscoveryRequest. The nonce only identifies the response that is
// answered: subscriptions and unsubscriptions apply whatever it is. first is set for the first
// request of the type, which also reports the versions that the client holds. A later request
// without subscriptions and unsubscriptions only answers a response.
func (m *Machine) requestDelta(s *subscription, r Request, first bool) {
	switch {
	case first:
		s.held, s.resumed, s.stateful = r.Held, r.Held.Len() > 0, r.Held.Len() > 0
		if r.Rejected { // about a response of an earlier stream
			m.recordNack(s, r, nil)
		}
	case r.Nonce != "":
		m.processDeltaAnswer(s, r)
	}
	if !first && len(r.Subscribe)+len(r.Unsubscribe) == 0 {
		return
	}
	before := s.names
	m.unsubscribeNames(s, sortedNames(r.Unsubscribe))
	asked, shared := r.Subscribe, r.Interned
	if shared == nil {
		asked, shared = m.internNames(r.Subscribe)
	}
	s.subscribeNames(asked, first)
	if first {
		s.wildcard = s.wildcard || s.Wildcard && !s.named
		s.oweAll()
	}
	if !EqualNames(before, s.names) {
		if len(s.names) != len(asked) || len(asked) == 0 || &s.names[0] != &asked[0] {
			shared = nil
		}
		m.setNames(s, s.names, shared)
	}
}

// subscribeNames adds names to the subscription and to s.owed, so that they are sent even if they
// were sent before. "*" subscribes to all resources of a wildcard type. On the first request of the
// type, names in s.held are not sent if the client holds their newest version. Later requests
// remove the names from s.held: the client needs them again whatever version it reported. It does
// nothing if names is empty.
func (s *subscription) subscribeNames(names []string, first bool) {
	if len(names) == 0 {
		return
	}
	s.named = true
	if containsName(names, wildcardName) {
		names = SubtractNames(names, []string{wildcardName})
		s.wildcard = s.Wildcard
		s.everything = s.Wildcard
	}
	s.markLacking(SubtractNames(names, s.names))
	s.names = MergeNames(s.names, names)
	s.oweNames(names)
	if !first {
		s.held.removeNames(names...)
	}
}

// unsubscribeNames removes names from the subscription; "*" removes the wildcard. Removed names
// that a wildcard still covers are added to s.owed, because the client forgets them: it must be
// sent the resource again, or its removal.
func (m *Machine) unsubscribeNames(s *subscription, names []string) {
	if len(names) == 0 {
		return
	}
	if containsName(names, wildcardName) {
		s.wildcard, s.everything = false, false
	}
	dropped := IntersectNames(s.names, names)
	s.dropNames(names)
	if s.wildcard {
		s.oweNames(dropped)
	}
}
