package push

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

const (
	// maxRefusals bounds the resources in Change.Refusals, and maxRefusers the proxies of each.
	maxRefusals, maxRefusers = 10, 20
)

// changeLog is a ring of the last changes. The owner adds changes; streams count their answers with
// atomic operations and without a lock.
type changeLog struct {
	ring   [maxChanges]atomic.Pointer[change] // a change is at its number modulo maxChanges
	newest atomic.Uint64                      // number; 0 before the first change
}

// change is one turn of the rollout: the differences between two snapshots that were pushed
// together.
type change struct {
	number    uint64
	snapshot  uint64 // version
	published time.Time
	causes    []Cause
	more      int // number of other causes

	// ended is set when all classes have been brought up to the snapshot.
	ended atomic.Pointer[rollout.TurnEnded]
	// classes is the number of classes that were offered resources, and offered the number of
	// proxies.
	classes, offered atomic.Int64
	// answers counts the proxies that have answered completely, by outcome.
	answers [outcomes]atomic.Int64
	// disconnected is the number of proxies that disconnected before.
	disconnected atomic.Int64
	// first and last are when the first and the last proxy acknowledged, as nanoseconds after
	// published; 0 if none has. slowest is the proxy that acknowledged last.
	first, last atomic.Int64
	slowest     atomic.Pointer[mesh.Proxy]

	mu       sync.Mutex
	refusals []ChangeRefusal
}

// outcome is how a proxy has answered a change.
type outcome uint8

const (
	// acknowledged means that the proxy has acknowledged every response.
	acknowledged outcome = iota
	// refused means that the proxy has rejected a response.
	refused
	// unaffected means that the proxy had to be sent nothing.
	unaffected
	outcomes = 3
)

// beginChange records the change of a turn that has begun, in place of the oldest if there are
// maxChanges.
func (l *changeLog) beginChange(t rollout.TurnBegan) {
	c := &change{number: t.Turn, snapshot: t.Snapshot.Version, published: t.Published}
	c.causes, c.more = causesOf(t)
	l.ring[t.Turn%maxChanges].Store(c)
	l.newest.Store(t.Turn)
}

// find returns the change with this number, or nil if it is not recorded. Only the last maxChanges
// are recorded.
func (l *changeLog) find(number uint64) *change {
	if c := l.ring[number%maxChanges].Load(); c != nil && c.number == number {
		return c
	}
	return nil
}

// endChange stores the record of the end of a turn in its change. It does nothing if the change is
// not recorded.
func (l *changeLog) endChange(t rollout.TurnEnded) {
	if c := l.find(t.Turn); c != nil {
		c.ended.Store(&t)
	}
}

// addOffer adds an offer to the counts of its turn's change. proxies, the number of proxies that
// were offered nothing of this turn before, is added to offered. An offer for a whole class
// increments classes. It does nothing if the change is not recorded.
func (l *changeLog) addOffer(o rollout.Offer, proxies int) {
	c := l.find(o.Turn)
	if c == nil {
		return
	}
	c.offered.Add(int64(proxies))
	if o.Class {
		c.classes.Add(1)
	}
}

// addAnswer counts that a proxy has answered the changes completely, with outcome as. An
// acknowledgement also updates the times from publication to the first and the last one, and the
// slowest proxy. Changes that are not recorded any more are ignored.
func (l *changeLog) addAnswer(changes pendingChanges, proxy *mesh.Proxy, as outcome, now time.Time) {
	for n := range changes.numbers() {
		c := l.find(n)
		if c == nil {
			continue
		}
		c.answers[as].Add(1)
		if as != acknowledged {
			continue
		}
		took := max(int64(now.Sub(c.published)), 1)
		if c.first.Load() == 0 {
			c.first.CompareAndSwap(0, took)
		}
		if took >= c.last.Load() {
			c.last.Store(took)
			c.slowest.Store(proxy)
		}
	}
}

// removeAnswer takes back the answer of a proxy that is offered more resources of the change. It
// does nothing if the change is no longer recorded.
func (l *changeLog) removeAnswer(number uint64, as outcome) {
	if c := l.find(number); c != nil {
		c.answers[as].Add(-1)
	}
}

// addDisconnected counts that a proxy has disconnected without answering the changes. It ignores
// changes that are no longer in the log.
func (l *changeLog) addDisconnected(changes pendingChanges) {
	for n := range changes.numbers() {
		if c := l.find(n); c != nil {
			c.disconnected.Add(1)
		}
	}
}

// addRefusal records in the changes that a proxy has rejected a response, for each resource of
// n.Resources, with the part of the message about it. Without any, the refusal is recorded with an
// empty resource name. Resources beyond maxRefusals, proxies beyond maxRefusers for each, and
// changes that are no longer recorded are ignored.
func (l *changeLog) addRefusal(changes pendingChanges, n Nack) {
	names := []Refused{{}}
	if len(n.Resources) > 0 {
		names = n.Resources
	}
	for number := range changes.numbers() {
		c := l.find(number)
		if c == nil {
			continue
		}
		c.mu.Lock()
		for _, r := range names {
			c.addRefusal(n.TypeURL, r.Name, n.ReasonFor(r.Name), n.Proxy)
		}
		c.mu.Unlock()
	}
}

// addRefusal adds a proxy, but only once, to the refusals of a resource, which keep the message of
// the first one. Resources beyond maxRefusals and proxies beyond maxRefusers are ignored. change.mu
// must be held.
func (c *change) addRefusal(typeURL, name, message string, proxy *mesh.Proxy) {
	i := slices.IndexFunc(c.refusals, func(r ChangeRefusal) bool { return r.TypeURL == typeURL && r.Resource == name })
	if i < 0 {
		if len(c.refusals) == maxRefusals {
			return
		}
		i = len(c.refusals)
		c.refusals = append(c.refusals, ChangeRefusal{TypeURL: typeURL, Resource: name, Message: message})
	}
	r := &c.refusals[i]
	if len(r.Proxies) < maxRefusers && !slices.Contains(r.Proxies, proxy) {
		r.Proxies = append(slices.Clip(r.Proxies), proxy)
	}
}
