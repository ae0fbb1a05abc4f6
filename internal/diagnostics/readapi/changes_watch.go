package readapi

import (
	"context"
	"math"
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
func (a *API) watchChanges(ctx context.Context, r *WatchChangesRequest, send sse.Sender) {
	caller := callerOf(ctx)
	events := newEventStream[Changes](ctx, r.LastEvent, send)
	var peers Changes
	var own []PushedChange
	var asked time.Time
	edition := uint64(math.MaxUint64) // of own
	for {
		start := a.Clock.Now()
		look := start.Sub(asked) >= maxInterval
		if look {
			peers, asked = a.peerChanges(ctx, r.ChangesRequest), start
		}
		if now := a.changeEdition(); now != edition {
			own, edition = a.ownChanges(caller, r.ChangesRequest)
			look = true
		}
		if look && events.update(mergeChanges(own, peers, r.Limit), start) != nil {
			return
		}
		if !a.pause(ctx, minInterval) {
			return
		}
	}
}

// pause waits for d and reports whether neither ctx nor the control plane has ended meanwhile.
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
// answered at least every maxInterval. After a slow call it waits for lookShare times the duration.
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
	c.now, c.progress, c.pending = all(), p, false
	c.number++
	for i := range c.now {
		c.pending = c.pending || c.now[i].Pending() > 0
	}
	end := now.Now()
	c.until = end.Add(max(minInterval, lookShare*end.Sub(start)))
	return c.now, c.number
}
