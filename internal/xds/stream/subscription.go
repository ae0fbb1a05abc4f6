package stream

import (
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// subscription is what a stream knows of one type that its client asked for.
//
// What the client holds is not stored. It follows from base (the sets that it was last brought up to) and what it
// subscribes to; what differs from that is in the exceptions: owed, held, lingering and frozen, which are mostly empty.
// At rest a subscription refers to nothing of any size that it does not share with the World or with alike clients.
type subscription struct {
	*Type
	at   int  // position in the table of types
	open bool // the client has asked for the type

	// wildcard is a subscription to "*", explicit or by the legacy rule; named says that a name was ever given on this
	// stream, which ends the legacy rule.
	wildcard, named bool
	// everything makes all of a wildcard due, and due a response, even if it is empty. look says that what is owed may
	// hold names that the World does not know.
	everything, due, look bool
	// stateful says that the client came with something of the type, resumed that it said what (delta).
	stateful, resumed bool

	names  []string
	shared any // keeps names alive where they are shared

	// base is nil until the first response was composed.
	base []*resource.Set
	// reached is the newest round (World) that the client was brought up to, with or without a response.
	reached uint64

	// owed are names to send whatever base says: asked for explicitly, or following their cluster. everything is the
	// same for all of a wildcard.
	owed []string
	// following are those of owed that follow their cluster: due whatever the client says, for what it says may be older
	// than the cluster.
	following []string
	// held is what the client said that it has (initial_resource_versions), as far as it was not compared yet.
	held *Holdings
	// trusted are the EDS names that were not sent because the client said it holds them, until it is seen not to wait
	// for any of them.
	trusted []string

	lingering
	frozen

	flights []flight
	// refused are the resources that the client does not have as they were last sent, with the number of that response.
	refused map[string]uint64
	// suspects are resources of a refusal that named none, to be sent again one by one.
	suspects []*resource.Resource
	sent     exchange
	acked    exchange
	message  string // of the last refusal, until the next ACK
}

// exchange is the number, from which its nonce is made, and the version of one response. The number is 0 for none.
type exchange struct {
	number  uint64
	version string
}

func (e exchange) nonce() string {
	if e.number == 0 {
		return ""
	}
	return strconv.FormatUint(e.number, 10)
}

// is says whether a nonce is that of the response.
func (e exchange) is(nonce string) bool {
	var buffer [20]byte
	return e.number != 0 && string(strconv.AppendUint(buffer[:0], e.number, 10)) == nonce
}

// covers says whether a resource of that name is to be sent to the client.
func (s *subscription) covers(name string) bool { return s.wildcard || has(s.names, name) }

// owe makes names due, even if the client seems to have them.
func (s *subscription) owe(names []string) {
	if len(names) == 0 {
		return
	}
	s.owed, s.look = union(s.owed, names), true
}

// oweFollowing is owe for names that follow their cluster: the client needs them again, even in the version that it said
// it holds.
func (s *subscription) oweFollowing(names []string) {
	s.held.drop(names...)
	s.unfreeze(names)
	s.following = union(s.following, names)
	s.owe(names)
}

// distrust sends what was not sent because the client said it holds it.
func (s *subscription) distrust() {
	s.owe(s.trusted)
	s.trusted, s.held = nil, nil
}

// askAll makes everything that the client subscribes to due, as after a first request.
func (s *subscription) askAll() {
	s.owe(s.names)
	s.everything = s.wildcard
	s.due = s.wildcard || len(s.names) > 0
}

// drop forgets names that the client unsubscribed from.
func (s *subscription) drop(names []string) {
	if len(names) == 0 {
		return
	}
	s.names = without(s.names, names)
	s.owed = without(s.owed, without(names, s.following))
	s.unfreeze(names)
	s.held.drop(names...)
	for _, n := range names {
		delete(s.refused, n)
	}
}

// asked says that the client waits for something that it asked for, or that has to follow what it was sent.
func (s *subscription) asked() bool { return s.due || s.everything || len(s.owed) > 0 }

// paced says that the type may be sent now: the client has asked, or has answered all that it was sent.
func (s *subscription) paced() bool { return s.unpaced() || s.asked() || !s.waiting() }

// behind says that the client does not have all that it should of the World that it was last brought up to.
func (s *subscription) behind() bool { return len(s.owed) > 0 || s.refers() && len(s.frozen) > 0 }

// upToDate says that composing would find nothing.
func (s *subscription) upToDate(round uint64) bool {
	return s.reached == round && !s.asked() && !s.behind()
}

// unknown gives the owed names that the World has not looked up yet.
func (s *subscription) unknown(w *World) []string {
	var list []string
	w.each(s.at, s.owed, func(n string, r *resource.Resource) {
		if r == nil && !w.knows(s.at, n) {
			list = append(list, n)
		}
	})
	return list
}

// tidy gives the memory of exceptions back that there are none of any more.
func (s *subscription) tidy() {
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

// many is from how many names on it pays to look for a shared list before the names are in order.
const many = 64

// asked makes a list of the names that a client sent: a shared one where that saves putting them in order. The second result
// is then to be held for as long as the list is in use.
func (m *Machine) asked(names []string) ([]string, any) {
	if len(names) < many {
		return sorted(names), nil
	}
	return m.intern(names)
}

// keep sets the names subscribed to. Equal lists of many streams have one place in memory; shared is what keeps such a list
// alive, nil if names is none yet.
func (m *Machine) keep(s *subscription, names []string, shared any) {
	s.names, s.shared = names, shared
	if shared == nil && !s.adopt(m.world.asked(s.at)) {
		s.names, s.shared = m.intern(names)
	}
}

// adopt takes the World's own list for names that are not shared yet, and says whether that was possible.
func (s *subscription) adopt(asked []string) bool {
	if s.shared != nil || len(s.names) == 0 || !same(asked, s.names) {
		return false
	}
	s.names, s.shared = asked, &asked[0]
	return true
}
