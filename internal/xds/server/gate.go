package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// overloadAfter is how long the oldest waiter of a gate may wait before newer waiters are
	// preferred.
	overloadAfter = 500 * time.Millisecond
	// maxWaiting bounds the waiters of a gate.
	maxWaiting = 10_000
)

// gate admits a bounded number of holders at the same time.
//
// Waiters are admitted in order of arrival. Once the oldest has waited for overloadAfter, the gate
// is overloaded and the newest is admitted first. Otherwise, under an overload, every waiter would
// wait until it times out, and none would be served. When too many wait, the oldest is refused.
type gate struct {
	maxWaiting int
	now        func() time.Time

	mu      sync.Mutex
	free    int
	waiting []*waiter // oldest first
}

// waiter is a waiting caller of acquire. Its channel receives true when it is admitted and false
// when it is refused.
type waiter struct {
	admitted chan bool
	since    time.Time
}

// newGate returns a gate with that many free places, at which at most maxWaiting wait.
func newGate(places, maxWaiting int) *gate {
	return &gate{free: places, maxWaiting: maxWaiting, now: time.Now}
}

// tryAcquire takes a place and reports whether one was free. It does not wait.
func (g *gate) tryAcquire() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free == 0 {
		return false
	}
	g.free--
	return true
}

// acquire waits for a place and returns nil when it has one, which the caller must give back with
// release. If more than maxWaiting wait, the oldest is refused with errTooMany. If ctx ends first,
// or had ended before, it returns ctx's error.
func (g *gate) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	w := &waiter{admitted: make(chan bool, 1), since: g.now()}
	g.waiting = append(g.waiting, w)
	if len(g.waiting) > g.maxWaiting {
		g.waiting[0].admitted <- false
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
	g.mu.Unlock()
	select {
	case admitted := <-w.admitted:
		if !admitted {
			return errTooMany
		}
		return nil
	case <-ctx.Done():
		return g.removeWaiter(w, ctx.Err())
	}
}

// removeWaiter removes a waiter that stops waiting and returns err. If the waiter was admitted at
// the same moment, its place goes to the next waiter.
func (g *gate) removeWaiter(w *waiter, err error) error {
	g.mu.Lock()
	at := slices.Index(g.waiting, w)
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
	}
	g.mu.Unlock()
	if at < 0 && <-w.admitted {
		g.release()
	}
	return err
}

// release returns a place: to the oldest waiter, or to the newest under overload (the oldest waits
// longer than overloadAfter). Without waiters the place becomes free.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	at := 0
	if g.now().Sub(g.waiting[0].since) > overloadAfter {
		at = len(g.waiting) - 1
	}
	w := g.waiting[at]
	g.waiting = slices.Delete(g.waiting, at, at+1)
	w.admitted <- true
}
