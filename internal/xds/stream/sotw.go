package stream

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// requestSotW processes a DiscoveryRequest, which lists all names of the type that the client
// wants. A request with the nonce of an older response is stale and not answered; it only drops the
// names that it omits. The client repeats its subscription in its answer to the newest response. A
// request without nonce and version that changes nothing is a first request sent again: everything
// is sent again. Endpoints that an ACK names for the first time are not sent if the client received
// them with the acknowledged response (withoutReceived).
func (m *Machine) requestSotW(s *subscription, r Request, first bool) {
	again := false // a first request sent again
	var acked []flight
	switch {
	case first:
		s.stateful = r.Version != ""
		if r.Rejected { // about a response of an earlier stream
			m.recordNack(s, r, nil)
		}
	case s.sent.number != 0 && r.Nonce != "" && !s.sent.hasNonce(r.Nonce):
		m.processLateAnswer(s, r)
		if !s.wildcard { // the client has already deleted the names that it omits
			s.dropNames(SubtractNames(s.names, sortedNames(r.Names)))
		}
		return
	case s.sent.hasNonce(r.Nonce):
		if !r.Rejected {
			acked = s.flights
		}
		m.processSotWAnswer(s, r)
	default:
		again = r.Nonce == "" && r.Version == ""
	}

	change := m.replaceNames(s, r.Names)
	if first || again && change.isEmpty() {
		s.oweAll()
		return
	}
	s.markLacking(change.added)
	s.oweNames(m.withoutReceived(s, change.added, acked))
	s.everything = s.everything || change.widened
}

// namesChange is the difference between the subscriptions of two SotW requests.
type namesChange struct {
	added, dropped []string
	widened        bool // the subscription became a wildcard
}

// isEmpty reports whether the later request subscribed to the same names. It ignores a wildcard
// that ended.
func (c namesChange) isEmpty() bool { return len(c.added) == 0 && len(c.dropped) == 0 && !c.widened }

// replaceNames makes the names of a request the subscription, and returns what changed. A wildcard
// type is subscribed to as a wildcard by the name "*", or by no names if no earlier request had
// any. It drops the state of the names that are omitted, but does not owe the added ones.
func (m *Machine) replaceNames(s *subscription, names []string) namesChange {
	shared := any(nil)
	if EqualNames(names, s.names) { // as in every ACK
		names = s.names
	} else {
		names, shared = m.internNames(names)
	}
	wildcard := s.Wildcard && (containsName(names, wildcardName) || len(names) == 0 && !s.named)
	s.named = s.named || len(names) > 0
	if containsName(names, wildcardName) {
		names, shared = SubtractNames(names, []string{wildcardName}), nil
	}
	c := namesChange{
		added:   SubtractNames(names, s.names),
		dropped: SubtractNames(s.names, names),
		widened: wildcard && !s.wildcard,
	}
	s.wildcard = wildcard
	s.everything = s.everything && wildcard
	s.dropNames(c.dropped)
	if len(c.added) > 0 || len(c.dropped) > 0 {
		m.setNames(s, names, shared)
	}
	return c
}

// withoutReceived returns names without the endpoints that the acknowledged flights had in their
// current version. Endpoints follow a new cluster unasked. Envoy requests them when it sees the
// cluster, with a nonce that is stale by then, so that its ACK is the first request that names
// them. A client that names its clusters (gRPC) may have ignored endpoints that it had not
// requested yet, so it returns names for such a client, as for other types.
func (m *Machine) withoutReceived(s *subscription, names []string, acked []flight) []string {
	c := m.clusters()
	if s.role != endpointRole || len(acked) == 0 || c == nil || !c.wildcard {
		return names
	}
	var received []string
	m.resources.forEachNamed(s.at, names, func(n string, is *resource.Resource) {
		for i := len(acked) - 1; i >= 0 && is != nil; i-- {
			if was := findResource(acked[i].parts, n); was != nil {
				if was.Version == is.Version {
					received = append(received, n)
				}
				return
			}
		}
	})
	return SubtractNames(names, received)
}

// stateOfTheWorld converts a draft of changes into a SotW response, or returns nil if there is
// nothing to send. A response of a wildcard type contains all subscribed resources. It is sent even
// without changes if due is set, but never if the type is Silent and it is empty. A response of
// another type contains only the changes, and cannot express removals.
func (m *Machine) stateOfTheWorld(s *subscription, d *draft, due bool) *draft {
	if !s.Wildcard {
		if d.removed = nil; len(d.parts) == 0 {
			return nil
		}
		return d
	}
	if d.isEmpty() && !due {
		return nil
	}
	full := &draft{before: d.before}
	for _, group := range m.resources.lists[s.at].groups {
		if s.wildcard {
			full.addPayload(s.clientVersions(group.fullPayload()))
		} else {
			full.addPayload(s.clientVersions(group.selectNames(s.names)))
		}
	}
	full.addPayload(NewPayload(s.lingeringResources()))
	if s.Silent && full.isEmpty() {
		return nil
	}
	return full
}

// clientVersions returns p with each frozen resource replaced by the version that the client has,
// or p itself if none is frozen. Frozen resources that the client lacks, or whose contents are
// unknown, are left out.
func (s *subscription) clientVersions(p *Payload) *Payload {
	if !slices.ContainsFunc(p.resources, func(r *resource.Resource) bool { return s.frozen[r.Name] != nil }) {
		return p
	}
	var list []*resource.Resource
	for _, r := range p.resources {
		switch was := s.frozen[r.Name]; {
		case was == nil:
			list = append(list, r)
		case !isNameOnly(was):
			list = append(list, was)
		}
	}
	return NewPayload(list)
}

// lingeringResources returns the lingering resources that the client subscribes to, sorted by name.
// Names that linger without a resource are left out.
func (s *subscription) lingeringResources() []*resource.Resource {
	var list []*resource.Resource
	for name, r := range s.gone {
		if r != nil && s.coversName(name) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
