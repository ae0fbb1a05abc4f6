package stream

// Took reports whether the client has acknowledged everything that the newest World has of the
// type, and rejects none of it. It returns false if the client did not request the type.
func (m *Machine) Took(typeURL string) bool {
	return m.took(m.sub(m.types.place(typeURL)))
}

// Taken returns the URLs of the types for which Took returns true.
func (m *Machine) Taken() []string {
	list := make([]string, 0, len(m.subs))
	for _, s := range m.subs {
		if m.took(s) {
			list = append(list, s.URL)
		}
	}
	return list
}

func (m *Machine) took(s *subscription) bool {
	return s != nil && m.world != nil && s.reached == m.round && !s.behind() && len(s.flights) == 0 && len(s.refused) == 0
}
