package push

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// maxSpareEvents bounds the capacity of the list that is kept for reuse.
const maxSpareEvents = 1 << 14

// eventQueue contains the events that the owner of the rollout has not processed yet. Snapshots are
// merged: only the newest of the unprocessed ones remains, with the merged Delta.
type eventQueue struct {
	ready notify.Wake // wakes the owner when there may be events

	mu        sync.Mutex
	events    []rollout.Event
	spare     []rollout.Event // the list taken before, for reuse
	published rollout.Published
	latest    *snapshot.Snapshot // the newest published one, also after it was taken; nil before
}

// newEventQueue returns an empty queue.
func newEventQueue() *eventQueue { return &eventQueue{ready: notify.NewWake()} }

// add appends events and wakes the owner. It never blocks, and does nothing without events.
func (q *eventQueue) add(events ...rollout.Event) {
	if len(events) == 0 {
		return
	}
	q.mu.Lock()
	q.events = append(q.events, events...)
	q.mu.Unlock()
	q.ready.Notify()
}

// publish stores a snapshot as the newest, queues it with its Delta, and wakes the owner. If the
// last one has not been taken from the queue yet, it is replaced: the Deltas are merged and the
// time of the first is kept.
func (q *eventQueue) publish(s *snapshot.Snapshot, d snapshot.Delta, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.latest = s
	q.publishLatest(d, now)
}

// publishAgain publishes the newest snapshot again with another Delta. It does nothing before the
// first snapshot.
func (q *eventQueue) publishAgain(d snapshot.Delta, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.latest != nil {
		q.publishLatest(d, now)
	}
}

// publishLatest makes the newest snapshot the one to publish, merges d into its Delta and wakes the
// owner. First becomes now only if none is in the queue; Last always does. q.mu must be held.
func (q *eventQueue) publishLatest(d snapshot.Delta, now time.Time) {
	if q.published.Snapshot == nil {
		q.published.First = now
	}
	q.published.Snapshot, q.published.Last = q.latest, now
	q.published.Delta.Merge(d)
	q.ready.Notify()
}

// drainEvents removes and returns all events in the order in which they were added, but a published
// snapshot, the newest, is the last of them. The list may be nil or empty. It is valid until the
// next call.
func (q *eventQueue) drainEvents() []rollout.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.published.Snapshot != nil {
		q.events = append(q.events, q.published)
		q.published = rollout.Published{}
	}
	taken := q.events
	clear(q.spare)
	if cap(q.spare) > maxSpareEvents {
		q.spare = nil
	}
	q.events, q.spare = q.spare[:0], taken
	return taken
}

// isEmpty reports whether there are neither events nor a published snapshot. It locks q.mu.
func (q *eventQueue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.events) == 0 && q.published.Snapshot == nil
}
