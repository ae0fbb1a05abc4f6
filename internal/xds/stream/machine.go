package stream

import "strconv"

// Options shape a Machine.
type Options struct {
	Mode Mode
	// Intern may give an equal, shared list for a list of names; nil keeps each as it is. Ten thousand alike proxies
	// subscribe to the same thousand names. The second result is held for as long as the list is in use.
	Intern func(names []string) ([]string, any)
}

// Machine is one ADS stream: see the package's documentation. It is not safe for concurrent use.
type Machine struct {
	mode   Mode
	intern func([]string) ([]string, any)

	world *World
	round uint64 // counts the Worlds
	subs  [len(pushOrder)]*subscription

	nonces  uint64
	writing bool // a Send is with the shell
	closed  bool
	// followers are EDS names whose clusters were sent before the client asked for EDS or LDS on this stream.
	followers []string
	strangers []string // types asked for that are not served

	actions []Action // of the Step under way
}

// New makes the Machine of a new stream.
func New(o Options) *Machine {
	m := &Machine{mode: o.Mode, intern: o.Intern}
	if m.intern == nil {
		m.intern = func(names []string) ([]string, any) { return names, nil }
	}
	return m
}

// Step takes an event in and gives what is to be done, in that order. At most one action is a Send, and none is until
// the Send before was followed by Sent.
func (m *Machine) Step(e Event) []Action {
	if m.closed {
		return nil
	}
	m.actions = nil
	switch e := e.(type) {
	case Request:
		m.request(e)
	case Ready:
		m.world = e.World
		m.round++
		for _, s := range m.subs {
			if s != nil {
				s.look = true
			}
		}
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
		*m = Machine{closed: true}
		return nil
	}
	if !m.writing && !m.closed {
		m.next()
	}
	m.want()
	return m.actions
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

// maxStrangers bounds the types that a stream remembers to have warned of.
const maxStrangers = 16

func (m *Machine) request(r Request) {
	if r.TypeURL == "" {
		m.closed = true
		m.do(Shut{Reason: "type_url is missing: an aggregated stream needs it in every request"})
		return
	}
	at := place(r.TypeURL)
	if at < 0 {
		if !has(m.strangers, r.TypeURL) && len(m.strangers) < maxStrangers {
			m.strangers = union(m.strangers, []string{r.TypeURL})
			m.do(Unknown{TypeURL: r.TypeURL})
		}
		return
	}
	s := m.subscription(at)
	first := !s.open
	s.open = true
	if m.mode == Delta {
		m.requestDelta(s, r, first)
	} else {
		m.requestSotW(s, r, first)
	}
	if first {
		m.opened(s)
	}
}

// subscription gives what is known of a type, making a place for it if nothing is.
func (m *Machine) subscription(at int) *subscription {
	if m.subs[at] == nil {
		m.subs[at] = &subscription{kind: &pushOrder[at], at: at}
	}
	return m.subs[at]
}

// opened does what the first request of a type tells about the other types.
func (m *Machine) opened(s *subscription) {
	switch s.at {
	case eds:
		m.join()
	case lds:
		m.join()
		e := m.subs[eds]
		if e == nil || !e.resumed {
			break
		}
		// While a cluster warms Envoy leaves CDS out of a new stream's requests, which otherwise come in push order.
		// What warms needs an EDS answer, whatever version of it is held; which cluster it is cannot be seen.
		if m.subs[cds] == nil {
			e.distrust()
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
		if names := s.unknown(m.world); len(names) > 0 && len(m.world.shelves[s.at]) > 0 {
			m.do(Want{TypeURL: s.url, Names: names})
		}
	}
}

// next sends the first thing in push order that is due: what is new or changed, and when nothing is, what is gone.
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
}

func (m *Machine) send(s *subscription, d *draft) {
	m.nonces++
	m.writing = true
	version := m.world.version(s.at)
	if m.mode == SotW && len(s.gone) > 0 {
		version += "+" + strconv.Itoa(len(s.gone)) // the state with what lingers is not the state without
	}
	first := s.sent.nonce == ""
	s.sent = exchange{nonce: strconv.FormatUint(m.nonces, 10), version: version}
	s.launch(flight{exchange: s.sent, number: m.nonces, parts: d.parts, removed: d.removed, before: d.before})
	m.do(Send{TypeURL: s.url, Version: version, Nonce: s.sent.nonce, Parts: d.parts, Removed: d.removed, First: first})
}
