package stream

import "strconv"

// Options are the parameters of a Machine.
type Options struct {
	Mode Mode
	// Types is the table of types that the stream serves. If nil, the types of Envoy are used.
	Types *Types
	// Intern returns names as a list: sorted, without duplicates or empty names. The list may be
	// shared between streams; the second result is retained as long as the list is in use. If
	// Intern is nil, every stream has its own lists. Ten thousand similar proxies subscribe to the
	// same thousand names.
	Intern func(names []string) ([]string, any)
	// Names limits the names that a client may subscribe to. Zero values mean no limit.
	Names NameLimits
	// Drain is the number of Overdue events for which the client keeps a resource that drained
	// connections use (Type.Drains), after the last reference to it is deleted. If 0, the resource
	// is removed at once.
	Drain int
}

// Machine is the protocol state of one ADS stream; see the package documentation. It is not safe
// for concurrent use.
type Machine struct {
	types  *Types
	intern func([]string) ([]string, any)
	limits NameLimits
	drain  int

	world *World
	round uint64          // number of Worlds received
	subs  []*subscription // by position in types, nil if not requested

	nonces  uint64
	mode    Mode
	writing bool // a Send was returned and no Sent event has followed it
	closed  bool
	stuck   bool // see arrival
	// followers are EDS names whose clusters were sent before the client requested EDS or LDS on
	// this stream.
	followers []string
	arrivals  []arrival
	strangers []string // requested types that are not served

	actions []Action // of the current Step
}

// New returns the Machine of a new stream.
func New(o Options) *Machine {
	m := &Machine{mode: o.Mode, types: o.Types, intern: o.Intern, limits: o.Names, drain: o.Drain}
	if m.types == nil {
		m.types = envoyTypes
	}
	if m.intern == nil {
		m.intern = func(names []string) ([]string, any) { return sorted(names), nil }
	}
	m.subs = make([]*subscription, len(m.types.list))
	return m
}

// Step processes an event and returns the resulting actions, in the order in which they must be
// performed. It returns at most one Send. It returns no further Send until a Sent event follows the
// previous one. After the stream has ended, it returns nil.
func (m *Machine) Step(e Event) []Action {
	if m.closed {
		return nil
	}
	switch e := e.(type) {
	case Request:
		m.request(e)
	case Ready:
		m.ready(e.World)
	case Sent:
		m.writing = false
	case Overdue:
		m.age()
	case Again:
		for _, s := range m.subs {
			if s != nil && s.open {
				s.askAll()
			}
		}
	case Close:
		*m = Machine{closed: true, types: m.types}
		return nil
	}
	if !m.writing && !m.closed {
		m.next()
	}
	m.want()
	actions := m.actions
	m.actions = nil
	return actions
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) ready(w *World) {
	if w.types != m.types {
		panic("stream: a World of other types than the stream's")
	}
	m.world = w
	m.round++
	for _, s := range m.subs {
		if s != nil {
			s.look = true
		}
	}
}

// maxStrangers limits the unserved types for which a stream reports Unknown.
const maxStrangers = 16

func (m *Machine) request(r Request) {
	if r.TypeURL == "" {
		m.closed = true
		m.do(Shut{Reason: "type_url is missing: an aggregated stream needs it in every request"})
		return
	}
	at := m.types.place(r.TypeURL)
	if at < 0 {
		if !has(m.strangers, r.TypeURL) && len(m.strangers) < maxStrangers {
			m.strangers = union(m.strangers, []string{r.TypeURL})
			m.do(Unknown{TypeURL: r.TypeURL})
		}
		return
	}
	s := m.subscription(at)
	first, before := !s.open, s.names
	s.open = true
	if m.mode == Delta {
		m.requestDelta(s, r, first)
	} else {
		m.requestSotW(s, r, first)
	}
	if exceeded := m.limits.exceeded(s, before); exceeded != "" {
		m.closed = true
		m.do(Shut{Reason: exceeded, Limit: true})
		return
	}
	if first {
		m.opened(s)
	}
}

// subscription returns the subscription of a type, and creates it if there is none.
func (m *Machine) subscription(at int) *subscription {
	if m.subs[at] == nil {
		m.subs[at] = &subscription{Type: &m.types.list[at], at: at}
	}
	return m.subs[at]
}

// sub returns the subscription of the type at a position, or nil if the position is -1 or the type
// has no subscription.
func (m *Machine) sub(at int) *subscription {
	if at < 0 || at >= len(m.subs) { // a closed stream has no subscriptions
		return nil
	}
	return m.subs[at]
}

func (m *Machine) clusters() *subscription  { return m.sub(m.types.clusters) }
func (m *Machine) endpoints() *subscription { return m.sub(m.types.endpoints) }
func (m *Machine) listeners() *subscription { return m.sub(m.types.listeners) }

// opened updates the other types after the first request of s. A request for EDS or LDS makes the
// stored followers due. After a request for LDS, it handles a reconnected client that does not
// request CDS.
func (m *Machine) opened(s *subscription) {
	switch s.role {
	case endpointRole:
		m.join()
	case listenerRole:
		m.join()
		e := m.endpoints()
		if e == nil {
			return
		}
		// While a cluster warms, Envoy leaves CDS out of a new stream's requests, which otherwise
		// arrive in push order. The warming cluster needs an EDS response, even one with the
		// version that the client holds. The server cannot see which cluster is warming.
		if m.clusters() == nil && (e.stateful || s.stateful) {
			if e.resumed {
				e.distrust()
			}
			m.doubt()
		}
		e.trusted = nil
	}
}

// want emits a Want for the owed names of each type that the World has not looked up.
func (m *Machine) want() {
	for _, s := range m.subs {
		if m.world == nil || s == nil || !s.look {
			continue
		}
		s.look = false
		if len(m.world.shelves[s.at]) == 0 {
			continue
		}
		if names := s.unknown(m.world); len(names) > 0 {
			m.do(Want{TypeURL: s.URL, Names: names})
		}
	}
}

// next emits at most one Send: the first due response in push order. New and changed resources come
// first, then removals of lingering resources, then retries of suspects of a rejection.
func (m *Machine) next() {
	if m.world == nil {
		return
	}
	for _, s := range m.subs {
		if s == nil || !s.paced() {
			continue
		}
		if d := m.compose(s); d != nil {
			m.send(s, d)
			return
		}
	}
	for _, s := range m.subs {
		if s == nil || !m.releasable(s) {
			continue
		}
		if d := m.release(s); d != nil {
			m.send(s, d)
			return
		}
	}
	for _, s := range m.subs {
		if s == nil {
			continue
		}
		if d := m.try(s); d != nil {
			m.send(s, d)
			return
		}
	}
}

func (m *Machine) send(s *subscription, d *draft) {
	m.nonces++
	m.writing = true
	first := s.sent.number == 0
	s.sent = exchange{number: m.nonces, version: m.version(s)}
	s.launch(flight{exchange: s.sent, parts: d.parts, removed: d.removed, before: d.before})
	if s.role == endpointRole {
		m.fed(s)
	}
	m.do(Send{TypeURL: s.URL, Version: s.sent.version, Nonce: s.sent.nonce(), Parts: d.parts, Removed: d.removed, First: first})
}

// version returns the content hash of all resources of a type. A suffix marks a state that differs
// from the World's, because resources linger (SotW) or are held back.
func (m *Machine) version(s *subscription) string {
	version := m.world.versions[s.at]
	if m.mode == SotW && len(s.gone) > 0 {
		version += "+" + strconv.Itoa(len(s.gone))
	}
	if s.refers() && len(s.frozen) > 0 {
		version += "-" + strconv.Itoa(len(s.frozen))
	}
	return version
}
