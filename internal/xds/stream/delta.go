package stream

// wildcardName is the resource name that subscribes to all resources of a type.
const wildcardName = "*"

// requestDelta processes a DeltaDiscoveryRequest. The nonce only identifies the response that is
// answered. Subscriptions and unsubscriptions apply whatever the nonce is. The first request of a
// type also reports the versions that the client holds.
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
	asked, shared := m.internNames(r.Subscribe)
	s.subscribeNames(asked, first)
	if first {
		s.wildcard = s.wildcard || s.Wildcard && !s.named
		s.oweAll()
	}
	if !equalNames(before, s.names) {
		if len(s.names) != len(asked) || len(asked) == 0 || &s.names[0] != &asked[0] {
			shared = nil
		}
		m.setNames(s, s.names, shared)
	}
}

// subscribeNames adds names to the subscription and makes all of them due. This includes names that
// were sent before or that the client reported as held.
func (s *subscription) subscribeNames(names []string, first bool) {
	if len(names) == 0 {
		return
	}
	s.named = true
	if containsName(names, wildcardName) {
		names = subtractNames(names, []string{wildcardName})
		s.wildcard = s.Wildcard
		s.everything = s.Wildcard
	}
	s.markLacking(subtractNames(names, s.names))
	s.names = mergeNames(s.names, names)
	s.oweNames(names)
	if !first {
		s.held.removeNames(names...)
	}
}

// unsubscribeNames removes names from the subscription. A removed name that a wildcard still covers
// must be answered with the resource or its removal. The client cannot know which of the two is
// true.
func (m *Machine) unsubscribeNames(s *subscription, names []string) {
	if len(names) == 0 {
		return
	}
	if containsName(names, wildcardName) {
		s.wildcard, s.everything = false, false
	}
	dropped := intersectNames(s.names, names)
	s.dropNames(names)
	if s.wildcard {
		s.oweNames(dropped)
	}
}
