package stream

import (
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// subscription is the state of one type on a stream.
//
// The resources that the client has are not stored. They follow from base (the sets that it was
// last updated to) and the names that it subscribes to. Differences from that are stored as
// exceptions in owed, held, lingering and frozen, which are mostly empty. At rest, all large values
// of a subscription are shared with the ResourceSnapshot or with similar clients.
type subscription struct {
	*Type
	at   int  // position in the table of types
	open bool // the client has requested the type

	// wildcard is set by a subscription to "*", explicit or by the legacy rule. named is set once
	// any name was requested on this stream, which ends the legacy rule.
	wildcard, named bool
	// everything makes all resources of a wildcard due. due makes a response due, even an empty
	// one. look is set if owed may contain names that the ResourceSnapshot does not know.
	everything, due, look bool
	// stateful is set if the client had resources of the type when it connected. resumed is set if
	// it reported which ones (delta).
	stateful, resumed bool

	names  []string
	shared any // keeps shared names reachable; nil if names is not shared

	onDemand

	// base is the sets that the client was last updated to, or nil until the first response was
	// composed.
	base []*resource.Set
	// reached is the newest round (ResourceSnapshot) that the client was updated to, with or
	// without a response.
	reached uint64

	// owed are names to send even if they are unchanged since base: explicitly requested, or
	// following their cluster. everything has the same effect for all resources of a wildcard.
	owed []string
	// following are the names in owed that follow their cluster. They are due even if the client
	// reported them as held, because its report may be older than the cluster.
	following []string
	// held is the part of the client's report (initial_resource_versions) that was not compared
	// yet.
	held *Holdings
	// trusted are the EDS names that were not sent because the client reported them as held. They
	// are cleared when the client shows that it does not wait for any of them.
	trusted []string
	// resend are the names in owed that are sent even in the version that the client reported as
	// held, because it waits for some of them.
	resend []string

	lingering
	frozen

	flights []flight
	// answered are the last acknowledged responses of a type with RejectsLate, oldest first.
	answered []flight
	// refused maps the resources whose last sent version the client rejected to the number of that
	// response.
	refused map[string]uint64
	// suspects are the resources of a NACK that named none. They are sent again one by one.
	suspects []*resource.Resource
	sent     exchange
	acked    exchange
	message  string // of the last NACK, until the next ACK
}

// exchange is the number and the version of one response. The nonce is made from the number, which
// is 0 if there is no response.
type exchange struct {
	number  uint64
	version string
}

// nonce returns the nonce of the response, or "" if there is no response.
func (e exchange) nonce() string {
	if e.number == 0 {
		return ""
	}
	return strconv.FormatUint(e.number, 10)
}

// hasNonce reports whether nonce is the nonce of the response. It returns false if there is no
// response.
func (e exchange) hasNonce(nonce string) bool {
	var buffer [20]byte
	return e.number != 0 && string(strconv.AppendUint(buffer[:0], e.number, 10)) == nonce
}

// coversName reports whether the client subscribes to the name, by wildcard or explicitly. A
// wildcard does not cover resources that the client fetches on demand.
func (s *subscription) coversName(name string) bool {
	return s.wildcard && !s.onDemand.excludes(name) || containsName(s.names, name)
}

// oweNames adds names to s.owed, so that they are sent with the next response of the type, even if
// they are unchanged.
func (s *subscription) oweNames(names []string) {
	if len(names) == 0 {
		return
	}
	s.owed, s.look = MergeNames(s.owed, names), true
}

// oweFollowing adds the names of endpoints that follow their clusters to s.owed and s.following,
// and unfreezes them. The client needs them again, even in the version that it reported as held.
func (s *subscription) oweFollowing(names []string) {
	s.unfreezeNames(names)
	s.following = MergeNames(s.following, names)
	s.oweNames(names)
}

// oweTrusted makes the next response contain the endpoints that were not sent because the client
// reported to hold them (s.trusted), in whatever version. From then on all names in s.owed, also
// other ones, are sent even in the version that the client reported. It clears s.trusted.
func (s *subscription) oweTrusted() {
	s.oweNames(s.trusted)
	s.trusted, s.resend = nil, s.owed
}

// oweAll makes the next response contain everything that the client subscribes to, as after a first
// request. It does nothing if the client subscribes to nothing.
func (s *subscription) oweAll() {
	s.oweNames(s.names)
	s.everything = s.wildcard
	s.due = s.wildcard || len(s.names) > 0
}

// dropNames removes names that the client unsubscribed from, with their entries in owed, resend,
// frozen, held and refused. Endpoints that follow their cluster stay in owed.
func (s *subscription) dropNames(names []string) {
	if len(names) == 0 {
		return
	}
	s.names = SubtractNames(s.names, names)
	s.owed = SubtractNames(s.owed, SubtractNames(names, s.following))
	s.resend = SubtractNames(s.resend, names)
	s.unfreezeNames(names)
	s.held.removeNames(names...)
	for _, n := range names {
		delete(s.refused, n)
	}
}

// hasRequest reports whether the type has a response to send whose content does not follow from
// changes: the client has requested resources, or endpoints must follow their clusters.
func (s *subscription) hasRequest() bool { return s.due || s.everything || len(s.owed) > 0 }

// maySend reports whether a response of the type may be sent now: the client has requested
// something that was not sent, no answer is awaited, or the type is unpaced.
func (s *subscription) maySend() bool { return s.isUnpaced() || s.hasRequest() || !s.awaitsAnswer() }

// isBehind reports whether the client lacks resources of the ResourceSnapshot that it was last
// updated to: names in s.owed, or resources that wait for clusters. It ignores frozen endpoints.
func (s *subscription) isBehind() bool {
	return len(s.owed) > 0 || s.refersToClusters() && len(s.frozen) > 0
}

// upToDate reports whether the client was updated to the given round, and there is nothing to send.
func (s *subscription) upToDate(round uint64) bool {
	return s.reached == round && !s.hasRequest() && !s.isBehind()
}

// unknownNames returns the names in s.owed that ResourceSnapshot w has not looked up yet, sorted.
func (s *subscription) unknownNames(w *ResourceSnapshot) []string {
	var list []string
	w.forEachNamed(s.at, s.owed, func(n string, r *resource.Resource) {
		if r == nil && !w.isKnown(s.at, n) {
			list = append(list, n)
		}
	})
	return list
}

// releaseEmpty sets empty maps and Holdings of the subscription to nil, to release their memory.
func (s *subscription) releaseEmpty() {
	if len(s.frozen) == 0 {
		s.frozen = nil
	}
	if len(s.refused) == 0 {
		s.refused = nil
	}
	if len(s.gone) == 0 {
		s.gone, s.draining = nil, nil
	}
	if s.held.Len() == 0 {
		s.held = nil
	}
}

// many is the number of names from which m.intern is called before the names are sorted.
const many = 64

// internNames returns the names sorted, without duplicates and empty names, shared with other
// streams if there are many. It may sort names in place and return them, so the caller must not use
// names afterwards, nor change the result. The caller must keep the second result, which may be
// nil, reachable while the list is in use.
func (m *Machine) internNames(names []string) ([]string, any) {
	if len(names) < many {
		return sortedNames(names), nil
	}
	return m.intern(names)
}

// setNames sets the names that s subscribes to, so that equal lists of many streams are stored
// once. shared keeps a list of internNames reachable. If shared is nil, it uses the
// ResourceSnapshot's list of looked-up names if that is equal, and otherwise interns names.
func (m *Machine) setNames(s *subscription, names []string, shared any) {
	s.names, s.shared = names, shared
	if shared == nil && !s.adoptSharedNames(m.resources.lookedUpNames(s.at)) {
		s.names, s.shared = m.intern(names)
	}
}

// adoptSharedNames replaces s.names by asked, an equal list of the ResourceSnapshot, and reports
// whether it did. It does nothing if s.names is shared already, empty or different from asked.
func (s *subscription) adoptSharedNames(asked []string) bool {
	if s.shared != nil || len(s.names) == 0 || !EqualNames(asked, s.names) {
		return false
	}
	s.names, s.shared = asked, &asked[0]
	return true
}
