package readapi

import (
	"context"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// WatchChangesRequest selects changes to follow.
type WatchChangesRequest struct {
	ChangesRequest
	LastEvent
}

// watchChanges sends an event when a change is new or has come further, and after each heartbeat. It
// looks at this replica every minInterval, and asks the others every maxInterval. It returns when
// the client disconnects or the control plane stops.
func (a *API) watchChanges(ctx context.Context, r *WatchChangesRequest, _ sse.Sender) {
	events := newEventStream(ctx, "changes", r.LastEvent)
	caller, shared := callerOf(ctx), context.WithoutCancel(ctx)
	for {
		now := a.Clock.Now()
		next, err := a.changeLists.entryFor(audienceOf(ctx, r.ChangesRequest)).update(now, a.changeEdition(), maxInterval,
			func() Changes { return a.peerChanges(shared, r.ChangesRequest) },
			func(peers Changes) any {
				return mergeChanges(a.ownChanges(caller, r.ChangesRequest), peers, r.Limit)
			})
		if err != nil || events.update(next, now) != nil || !a.pause(ctx, minInterval) {
			return
		}
	}
}

// pause waits for d. It returns true after d, and false at once if ctx ends or the control plane
// stops before.
func (a *API) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-a.Stopping:
		return false
	case <-a.Clock.After(d):
		return true
	}
}

// changeEdition returns a number that differs when the changes of this replica may.
func (a *API) changeEdition() uint64 {
	if a.Changes == nil {
		return 0
	}
	_, edition := a.changes.list(a.Clock, a.ChangeProgress, a.Changes)
	return edition
}

// changeCache keeps the list of changes for all clients, because it looks at each stream.
type changeCache struct {
	mu       sync.Mutex
	until    time.Time // the list is not made again before, unless it was never made
	progress uint64
	number   uint64 // of the list
	pending  bool   // a proxy has not answered
	now      []push.Change
}

// list returns the result of all and its edition, a number that differs when the list may. It calls
// all again if progress has another result, at most every minInterval, and while proxies have not
// answered at least every maxInterval. It waits for lookShare times the CPU time of the last call.
// The list is shared and must not be modified.
func (c *changeCache) list(now clock.Clock, progress func() uint64, all func() []push.Change) ([]push.Change, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := now.Now()
	if c.number > 0 && start.Before(c.until) {
		return c.now, c.number
	}
	p := progress()
	if c.number > 0 && p == c.progress && !(c.pending && start.Sub(c.until) >= maxInterval-minInterval) {
		return c.now, c.number
	}
	cost := cpuTime(func() { c.now = all() })
	c.progress, c.pending = p, false
	c.number++
	for i := range c.now {
		c.pending = c.pending || c.now[i].Pending() > 0
	}
	c.until = now.Now().Add(max(minInterval, lookShare*cost))
	return c.now, c.number
}
