package stream

import "github.com/meshpilot/meshpilot/internal/resource"

// subscription is what a stream knows of one type that its client asked for.
//
// What the client holds is not stored. It follows from base (the sets that it was last brought up to) and what it
// subscribes to; what differs from that is in the exceptions: owed, held, lingering and frozen, which are mostly empty.
type subscription struct {
	*kind
	at   int  // position in pushOrder
	open bool // the client has asked for the type

	// wildcard is a subscription to "*", explicit or by the legacy rule; named says that a name was ever given on this
	// stream, which ends the legacy rule.
	wildcard, named bool
	names           []string
	shared          any // keeps names alive where they are shared

	// base is nil until the first response was composed.
	base []*resource.Set
	// reached is the newest round (World) that the client was brought up to, with or without a response.
	reached uint64

	// owed are names to send whatever base says: asked for explicitly, or following their cluster. everything is the
	// same for all of a wildcard.
	owed       []string
	everything bool
	// following are those of owed that follow their cluster: due whatever the client says, for what it says may be older
	// than the cluster.
	following []string
	// look says that what is owed may hold names that the World does not know.
	look bool
	// held is what the client said that it has (initial_resource_versions), as far as it was not compared yet. resumed
	// says that it said so.
	held    map[string]string
	resumed bool
	// trusted are the EDS names that were not sent because the client said it holds them, until it is seen not to wait
	// for any of them.
	trusted []string
	// due says that a response must come even if it is empty.
	due bool

	lingering
	frozen

	flights []flight
	// refused are the resources that the client does not have as they were last sent, with the number of that response.
	refused map[string]uint64
	sent    exchange
	acked   exchange
	message string // of the last refusal, until the next ACK
}

// exchange is the nonce and version of one response.
type exchange struct{ nonce, version string }

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
	for _, n := range names {
		delete(s.held, n)
	}
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
	s.names = without(s.names, names)
	s.owed = without(s.owed, without(names, s.following))
	s.unfreeze(names)
	for _, n := range names {
		delete(s.refused, n)
		delete(s.held, n)
	}
}

// asked says that the client waits for something that it asked for, or that has to follow what it was sent.
func (s *subscription) asked() bool { return s.due || s.everything || len(s.owed) > 0 }

// paced says that the type may be sent now: the client has asked, or has answered all that it was sent.
func (s *subscription) paced() bool { return s.unpaced || s.asked() || !s.waiting() }

// upToDate says that composing would find nothing.
func (s *subscription) upToDate(round uint64) bool { return s.reached == round && !s.asked() }

// unknown gives the owed names that the World has not looked up yet.
func (s *subscription) unknown(w *World) []string {
	var list []string
	for _, n := range s.owed {
		if w.get(s.at, n) == nil && !w.knows(s.at, n) {
			list = append(list, n)
		}
	}
	return list
}
