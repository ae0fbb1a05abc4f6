package stream

import "strconv"

// Options shape a Machine.
type Options struct {
	Mode Mode
	// Types is the table of types that the stream serves; nil is EnvoyTypes.
	Types *Types
	// Intern gives names, which are in any order, as a list: sorted, each once, none empty. It may be one that is shared; the
	// second result is held for as long as the list is in use. nil: every stream has its own. Ten thousand alike proxies
	// subscribe to the same thousand names.
	Intern func(names []string) ([]string, any)
	// Names bounds what a client may subscribe to. Zero values mean no limit.
	Names NameLimits
	// Drain is for how many Overdue events after the last reference is gone the client keeps a
	// resource that drained connections use (Type.Drains). If 0, it is removed at once.
	Drain int
}

// Machine is one ADS stream: see the package's documentation. It is not safe for concurrent use.
type Machine struct {
	types  *Types
	intern func([]string) ([]string, any)
	limits NameLimits
	drain  int

	world *World
	round uint64          // counts the Worlds
	subs  []*subscription // by position in types, nil for what is not asked for

	nonces  uint64
	mode    Mode
	writing bool // a Send is with the shell
	closed  bool
	stuck   bool // see arrival
	// followers are EDS names whose clusters were sent before the client asked for EDS or LDS on this stream.
	followers []string
	arrivals  []arrival
	strangers []string // types asked for that are not served

	actions []Action // of the Step under way
}

// New makes the Machine of a new stream.
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

// Step takes an event in and gives what is to be done, in that order. At most one action is a Send, and none is until
// the Send before was followed by Sent.
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

// maxStrangers bounds the types that a stream remembers to have warned of.
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

// subscription gives what is known of a type, making a place for it if nothing is.
func (m *Machine) subscription(at int) *subscription {
	if m.subs[at] == nil {
		m.subs[at] = &subscription{Type: &m.types.list[at], at: at}
	}
	return m.subs[at]
}

// sub gives what is known of the type at a position, nil if that is -1 or the type was not asked for.
func (m *Machine) sub(at int) *subscription {
	if at < 0 || at >= len(m.subs) { // none are left when the stream is closed
		return nil
	}
	return m.subs[at]
}

func (m *Machine) clusters() *subscription  { return m.sub(m.types.clusters) }
func (m *Machine) endpoints() *subscription { return m.sub(m.types.endpoints) }
func (m *Machine) listeners() *subscription { return m.sub(m.types.listeners) }

// opened does what the first request of a type tells about the other types.
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
		// While a cluster warms Envoy leaves CDS out of a new stream's requests, which otherwise come in push order.
		// What warms needs an EDS answer, whatever version of it is held; which cluster it is cannot be seen.
		if m.clusters() == nil && (e.stateful || s.stateful) {
			if e.resumed {
				e.distrust()
			}
			m.doubt()
		}
		e.trusted = nil
	}
}

// want asks for owed names that the World does not know.
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

// next sends the first thing in push order that is due: what is new or changed, and when nothing is, what is gone, and then
// what a refusal left in doubt.
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

// version is the content hash of all resources of a type. The state with what lingers, or without what waits, is not the
// World's.
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
