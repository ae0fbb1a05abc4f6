package stream

// Took says that the client has acknowledged everything of a type that the newest World has for it, and refuses none of it.
func (m *Machine) Took(typeURL string) bool {
	s := m.sub(m.types.place(typeURL))
	return s != nil && m.world != nil && s.reached == m.round && !s.behind() && len(s.flights) == 0 && len(s.refused) == 0
}
