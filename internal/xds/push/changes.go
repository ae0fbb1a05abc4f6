package push

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// Change is how far one change has come: the differences between two snapshots that were pushed
// together. It is a copy; the values it points to must not be modified.
type Change struct {
	// Number numbers the changes since the start of the Pusher, beginning with 1. Snapshot is the
	// version of the snapshot that was pushed.
	Number, Snapshot uint64
	// Published is when the first of the differences was published.
	Published time.Time
	// Causes are the objects that have changed, at most maxCauses. MoreCauses is the number of
	// those left out.
	Causes     []Cause
	MoreCauses int
	// Generated is set when all classes have been brought up to the snapshot; nil before. The
	// server-first barrier may hold back a part of it even then.
	Generated *rollout.TurnEnded
	// Classes is the number of classes that were offered resources; one with two parts counts
	// twice.
	Classes int
	// Proxies is the number of proxies that something was sent to. Acknowledged and Refused are how
	// many of them have answered everything with ACKs only, or with a NACK. Disconnected is how
	// many disconnected before.
	Proxies, Acknowledged, Refused, Disconnected int
	// First and Last are the times from Published until the first and the last proxy acknowledged;
	// zero if none has. Slowest is the proxy that was the last; nil if none has acknowledged.
	First, Last time.Duration
	Slowest     *mesh.Proxy
	// Refusals are the resources that proxies have rejected, at most maxRefusals.
	Refusals []ChangeRefusal
	// Behind are some of the proxies that have not answered everything, at most maxChangeBehind. It
	// is nil for a change that is younger than the argument of Reports.Changes.
	Behind []ChangeBehind
}

// ChangeRefusal is a resource that proxies have rejected.
type ChangeRefusal struct {
	// Resource is empty if the error message names none.
	TypeURL, Resource, Message string
	// Proxies are some of the proxies that have rejected it, at most maxRefusers.
	Proxies []*mesh.Proxy
}

// ChangeBehind is a proxy that has not answered a change completely.
type ChangeBehind struct {
	Proxy *mesh.Proxy
	// Types are the URLs of the types with a missing response or answer. It is empty if the stream
	// has not begun to send the change.
	Types []string
}

// maxChangeBehind bounds the proxies in Change.Behind.
const maxChangeBehind = 100

// Pending returns the number of proxies that have not answered everything.
func (c *Change) Pending() int {
	return max(0, c.Proxies-c.Acknowledged-c.Refused-c.Disconnected)
}

// Changes returns the last changes, at most maxChanges, newest first, never nil. Behind is set only
// for changes that some proxies have not answered behindAfter after the publication. It has at most
// maxChangeBehind of these proxies, in no particular order. No stream is read if there is no such
// change.
func (x Reports) Changes(behindAfter time.Duration) []Change {
	list, now := x.pusher.changes.newestFirst(), x.pusher.clock.Now()
	searched := map[uint64]*Change{}
	for i := range list {
		if list[i].Pending() > 0 && now.Sub(list[i].Published) >= behindAfter {
			searched[list[i].Number] = &list[i]
		}
	}
	for _, c := range x.pusher.clients.all() {
		if len(searched) == 0 {
			break
		}
		c.addBehind(searched)
	}
	return list
}

// ChangeProgress returns a checksum over all recorded changes of their ends and of the numbers of
// proxies that were offered them, have answered and have disconnected. It does not reflect Behind
// and Refusals, and allocates nothing.
func (x Reports) ChangeProgress() uint64 { return x.pusher.changes.progress() }

// addBehind adds the proxy to Behind of each change in the map that it has not answered. Changes
// that have maxChangeBehind proxies then are deleted from the map. It does nothing if the stream
// has ended. Types are all types that the stream has not answered, and nil for a change whose offer
// it has not taken. It locks c.mu.
func (c *Client) addBehind(changes map[uint64]*Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	taken, pending := c.answer.pending, c.answer.pending
	if o := c.mailbox.Load(); o != nil {
		pending.merge(o.changes)
	}
	var types []string
	for n := range pending.numbers() {
		x := changes[n]
		if x == nil {
			continue
		}
		b := ChangeBehind{Proxy: c.node}
		if taken.has(n) {
			if types == nil {
				types = c.machine.UnansweredTypes()
			}
			b.Types = types
		}
		if x.Behind = append(x.Behind, b); len(x.Behind) == maxChangeBehind {
			delete(changes, n)
		}
	}
}

// newestFirst returns all recorded changes, without Behind. There are at most maxChanges; without
// any, the list is empty, not nil.
func (l *changeLog) newestFirst() []Change {
	list := []Change{}
	newest := l.newest.Load()
	for n := newest; n > 0 && newest-n < maxChanges; n-- {
		if c := l.find(n); c != nil {
			list = append(list, c.state())
		}
	}
	return list
}

// state returns a copy of the present state of the change, without Behind. Proxies are the offered
// ones except unaffected ones, at least 0.
func (c *change) state() Change {
	skipped := c.answers[unaffected].Load()
	x := Change{
		Number: c.number, Snapshot: c.snapshot, Published: c.published, Causes: c.causes, MoreCauses: c.more,
		Generated: c.ended.Load(), Classes: int(c.classes.Load()), Proxies: int(max(0, c.offered.Load()-skipped)),
		Acknowledged: int(c.answers[acknowledged].Load()), Refused: int(c.answers[refused].Load()),
		Disconnected: int(c.disconnected.Load()), First: time.Duration(c.first.Load()),
		Last:    time.Duration(c.last.Load()),
		Slowest: c.slowest.Load(),
	}
	c.mu.Lock()
	x.Refusals = append(x.Refusals, c.refusals...)
	c.mu.Unlock()
	return x
}

// progress returns the checksum of ChangeProgress. It changes with the newest change, and with the
// answers, offers, disconnections and end of each recorded one.
func (l *changeLog) progress() uint64 {
	newest := l.newest.Load()
	sum := newest
	for i := range l.ring {
		c := l.ring[i].Load()
		if c == nil {
			continue
		}
		for k := range c.answers {
			sum = sum*31 + uint64(c.answers[k].Load())
		}
		sum = (sum*31+uint64(c.offered.Load()))*31 + uint64(c.disconnected.Load())
		if c.ended.Load() != nil {
			sum++
		}
	}
	return sum
}
