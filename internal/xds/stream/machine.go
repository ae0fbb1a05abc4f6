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
	// Drain is the number of Tick events for which the client keeps a resource that drained
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

	resources *ResourceSnapshot
	round     uint64          // number of ResourceSnapshots received
	subs      []*subscription // by position in types, nil if not requested

	nonces  uint64
	mode    Mode
	writing bool // a Send was returned and no Sent event has followed it
	closed  bool
	stuck   bool // see arrival
	// followers are EDS names whose clusters were sent before the client requested EDS or LDS on
	// this stream.
	followers    []string
	arrivals     []arrival
	unknownTypes []string // requested types that are not served

	actions []Action // of the current Step
}

// New returns the Machine of a new stream. If o.Types is nil, it serves Envoy's types; if o.Intern
// is nil, name lists are not shared. Name limits and a drain time that are not positive do not
// apply.
func New(o Options) *Machine {
	m := &Machine{mode: o.Mode, types: o.Types, intern: o.Intern, limits: o.Names, drain: o.Drain}
	if m.types == nil {
		m.types = envoyTypes
	}
	if m.intern == nil {
		m.intern = func(names []string) ([]string, any) { return sortedNames(names), nil }
	}
	m.subs = make([]*subscription, len(m.types.list))
	return m
}

// Step processes an event and returns the resulting actions, in the order in which they must be
// performed. It returns at most one Send. It returns no further Send until a Sent event follows the
// previous one. After EndStream or a Close event, it returns nil.
func (m *Machine) Step(e Event) []Action {
	if m.closed {
		return nil
	}
	switch e := e.(type) {
	case Request:
		m.processRequest(e)
	case Ready:
		m.replaceResources(e.Resources)
	case Sent:
		m.writing = false
	case Tick:
		m.advanceTimers()
	case ResendAll:
		for _, s := range m.subs {
			if s != nil && s.open {
				s.oweAll()
			}
		}
	case Close:
		*m = Machine{closed: true, types: m.types}
		return nil
	}
	if !m.writing && !m.closed {
		m.emitNext()
	}
	m.emitWanted()
	actions := m.actions
	m.actions = nil
	return actions
}

// addAction appends an action to the result of the current Step.
func (m *Machine) addAction(a Action) { m.actions = append(m.actions, a) }

// replaceResources makes w the newest ResourceSnapshot and begins a new round. In each subscription
// it requests another look at the owed names and sets which resources w fetches on demand. It
// panics if w was made with another table of types.
func (m *Machine) replaceResources(w *ResourceSnapshot) {
	if w.types != m.types {
		panic("stream: a ResourceSnapshot of other types than the stream's")
	}
	m.resources = w
	m.round++
	for _, s := range m.subs {
		if s != nil {
			s.look, s.fetched = true, w.fetchedOf(s.Type)
		}
	}
}

// maxUnknownTypes limits the unserved types for which a stream reports Unknown.
const maxUnknownTypes = 16

// processRequest processes a request of any type. A request without a type, or beyond the name
// limits, emits EndStream and closes the machine. An unknown type is ignored, and reported as
// Unknown the first time, up to maxUnknownTypes types.
func (m *Machine) processRequest(r Request) {
	if r.TypeURL == "" {
		m.closed = true
		m.addAction(EndStream{Reason: "type_url is missing: an aggregated stream needs it in every request"})
		return
	}
	at := m.types.positionOf(r.TypeURL)
	if at < 0 {
		if !containsName(m.unknownTypes, r.TypeURL) && len(m.unknownTypes) < maxUnknownTypes {
			m.unknownTypes = MergeNames(m.unknownTypes, []string{r.TypeURL})
			m.addAction(Unknown{TypeURL: r.TypeURL})
		}
		return
	}
	s := m.openSubscription(at)
	first, before := !s.open, s.names
	s.open = true
	if m.mode == Delta {
		m.requestDelta(s, r, first)
	} else {
		m.requestSotW(s, r, first)
	}
	if exceeded := m.limits.exceeded(s, before); exceeded != "" {
		m.closed = true
		m.addAction(EndStream{Reason: exceeded, Limit: true})
		return
	}
	if first {
		m.afterFirstRequest(s)
	}
}

// openSubscription returns the subscription of the type at a position, and creates it if there is
// none.
func (m *Machine) openSubscription(at int) *subscription {
	if m.subs[at] == nil {
		s := &subscription{Type: &m.types.list[at], at: at}
		s.fetched = m.resources.fetchedOf(s.Type)
		m.subs[at] = s
	}
	return m.subs[at]
}

// subscriptionAt returns the subscription of the type at a position, or nil if the position is -1
// or the type has no subscription.
func (m *Machine) subscriptionAt(at int) *subscription {
	if at < 0 || at >= len(m.subs) { // a closed stream has no subscriptions
		return nil
	}
	return m.subs[at]
}

// clusters, endpoints and listeners return the subscriptions of CDS, EDS and LDS, or nil for a type
// without a subscription. The subscription of EDS may exist before its first request
// (oweFollowing).
func (m *Machine) clusters() *subscription  { return m.subscriptionAt(m.types.clusters) }
func (m *Machine) endpoints() *subscription { return m.subscriptionAt(m.types.endpoints) }
func (m *Machine) listeners() *subscription { return m.subscriptionAt(m.types.listeners) }

// afterFirstRequest updates the other types after the first request of s. After a first request of
// EDS or LDS it sends the stored followers. A first request of LDS clears the trusted endpoints, if
// EDS has a subscription. If the client then has not requested CDS, and had state of EDS or LDS
// when it connected, its listeners and routes wait for clusters (markUnwarmed). The trusted
// endpoints of such a client are first sent again, if it reported endpoints.
func (m *Machine) afterFirstRequest(s *subscription) {
	switch s.role {
	case endpointRole:
		m.oweFollowers()
	case listenerRole:
		m.oweFollowers()
		e := m.endpoints()
		if e == nil {
			return
		}
		// While a cluster warms, Envoy leaves CDS out of a new stream's requests, which otherwise
		// arrive in push order. The warming cluster needs an EDS response, even one with the
		// version that the client holds. The server cannot see which cluster is warming.
		if m.clusters() == nil && (e.stateful || s.stateful) {
			if e.resumed {
				e.oweTrusted()
			}
			m.markUnwarmed()
		}
		e.trusted = nil
	}
}

// emitWanted emits a Want for the owed names of each type that the ResourceSnapshot has not looked
// up. It checks only subscriptions that gained owed names (s.look). It does nothing before the
// first ResourceSnapshot, or for types without groups.
func (m *Machine) emitWanted() {
	for _, s := range m.subs {
		if m.resources == nil || s == nil || !s.look {
			continue
		}
		s.look = false
		if len(m.resources.lists[s.at].groups) == 0 {
			continue
		}
		if names := s.unknownNames(m.resources); len(names) > 0 {
			m.addAction(Want{TypeURL: s.URL, Names: names})
		}
	}
}

// emitNext emits at most one Send: the response of the first type in push order that has one. New
// and changed resources come first, then removals of lingering resources, then retries of suspects
// of a rejection. Before the first ResourceSnapshot it emits nothing.
func (m *Machine) emitNext() {
	if m.resources == nil {
		return
	}
	for _, s := range m.subs {
		if s == nil || !s.maySend() {
			continue
		}
		if d := m.composeDraft(s); d != nil {
			m.emitSend(s, d)
			return
		}
	}
	for _, s := range m.subs {
		if s == nil || !m.canRelease(s) {
			continue
		}
		if d := m.releaseLingering(s); d != nil {
			m.emitSend(s, d)
			return
		}
	}
	for _, s := range m.subs {
		if s == nil {
			continue
		}
		if d := m.retrySuspect(s); d != nil {
			m.emitSend(s, d)
			return
		}
	}
}

// emitSend emits a Send for a draft with the next nonce and records it as unanswered. Removals of
// clusters fetched on demand are replaced first (replaceRemovals). No other Send is emitted until a
// Sent event.
func (m *Machine) emitSend(s *subscription, d *draft) {
	m.replaceRemovals(s, d)
	m.nonces++
	m.writing = true
	first := s.sent.number == 0
	s.sent = exchange{number: m.nonces, version: m.versionFor(s)}
	s.addFlight(flight{exchange: s.sent, parts: d.parts, removed: d.removed, before: d.before})
	if s.role == endpointRole {
		m.markEndpointsSent(s)
	}
	m.addAction(
		Send{
			TypeURL: s.URL,
			Version: s.sent.version,
			Nonce:   s.sent.nonce(),
			Parts:   d.parts,
			Removed: d.removed,
			First:   first,
		},
	)
}

// versionFor returns the version of a response of type s: the content hash of all resources of the
// type. A suffix marks a state that differs from the ResourceSnapshot's: "+" and the number of
// lingering resources (only SotW), then "-" and the number of resources that wait for clusters.
func (m *Machine) versionFor(s *subscription) string {
	version := m.resources.lists[s.at].version
	if m.mode == SotW && len(s.gone) > 0 {
		version += "+" + strconv.Itoa(len(s.gone))
	}
	if s.refersToClusters() && len(s.frozen) > 0 {
		version += "-" + strconv.Itoa(len(s.frozen))
	}
	return version
}
