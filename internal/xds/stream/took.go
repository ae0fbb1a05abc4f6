package stream

// Took says that the client has acknowledged everything of a type that the newest World has for it, and refuses none of it.
func (m *Machine) Took(typeURL string) bool {
	return m.took(m.sub(m.types.place(typeURL)))
}

// Taken gives the types of which it took everything.
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
