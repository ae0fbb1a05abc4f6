package stream

// wildcardName is the resource name that stands for all resources of a type.
const wildcardName = "*"

// requestDelta takes in a DeltaDiscoveryRequest. A nonce only tells which response is answered: what is subscribed and
// unsubscribed counts whatever it says.
func (m *Machine) requestDelta(s *subscription, r Request, first bool) {
	switch {
	case first:
		s.held, s.resumed, s.stateful = r.Held, r.Held.Len() > 0, r.Held.Len() > 0
		s.held.drop(s.following...) // it must be given these again: their clusters came before this request
		if r.Rejected {             // of a stream before this one
			m.refuse(s, r, nil)
		}
	case r.Nonce != "":
		m.answeredDelta(s, r)
	}
	if !first && len(r.Subscribe)+len(r.Unsubscribe) == 0 {
		return
	}
	before := s.names
	m.unsubscribe(s, sorted(r.Unsubscribe))
	asked, shared := m.asked(r.Subscribe)
	s.subscribe(asked, first)
	if first {
		s.wildcard = s.wildcard || s.Wildcard && !s.named
		s.askAll()
	}
	if !same(before, s.names) {
		if len(s.names) != len(asked) || len(asked) == 0 || &s.names[0] != &asked[0] {
			shared = nil
		}
		m.keep(s, s.names, shared)
	}
}

// subscribe adds to what the client is interested in. Every name is answered, also one that it was sent before, or said
// earlier that it holds.
func (s *subscription) subscribe(names []string, first bool) {
	if len(names) == 0 {
		return
	}
	s.named = true
	if has(names, wildcardName) {
		names = without(names, []string{wildcardName})
		s.wildcard = s.Wildcard
		s.everything = s.Wildcard
	}
	s.lacks(without(names, s.names))
	s.names = union(s.names, names)
	s.owe(names)
	if !first {
		s.held.drop(names...)
	}
}

// unsubscribe takes away from it. A name dropped from beside a wildcard that still covers it must be answered, with the
// resource or its removal, for the client cannot know which of the two is true now.
func (m *Machine) unsubscribe(s *subscription, names []string) {
	if len(names) == 0 {
		return
	}
	if has(names, wildcardName) {
		s.wildcard, s.everything = false, false
	}
	dropped := without(s.names, without(s.names, names))
	s.drop(names)
	if s.wildcard {
		s.owe(dropped)
	}
}
