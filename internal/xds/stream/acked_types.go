package stream

// AckedType reports whether the client has acknowledged everything that the newest ResourceSnapshot
// has of the type, and rejects none of it. It returns false if the client did not request the type.
func (m *Machine) AckedType(typeURL string) bool {
	return m.hasAckedAllOf(m.subscriptionAt(m.types.positionOf(typeURL)))
}

// AckedTypes returns the URLs of the types for which AckedType returns true, in push order.
func (m *Machine) AckedTypes() []string {
	list := make([]string, 0, len(m.subs))
	for _, s := range m.subs {
		if m.hasAckedAllOf(s) {
			list = append(list, s.URL)
		}
	}
	return list
}

// hasAckedAllOf reports whether the client has acknowledged everything that the newest
// ResourceSnapshot has of the type s, and rejects none of it. It returns false if s is nil.
func (m *Machine) hasAckedAllOf(s *subscription) bool {
	return s != nil && m.resources != nil && s.reached == m.round && !s.isBehind() && len(s.flights) == 0 &&
		len(s.refused) == 0
}
