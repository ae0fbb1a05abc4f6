package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// admission paces new streams: a second's worth at once, the others in the order in which they come, at an even rate.
type admission struct {
	clock    push.Clock
	interval time.Duration // 0: no bound

	mu   sync.Mutex
	next time.Time // when the one after the last would be due at an even rate
}

// maxWait bounds how long a stream waits for its turn. Beyond it the proxy had better try another replica, or later.
const maxWait = 20 * time.Second

func newAdmission(perSecond float64, clock push.Clock) *admission {
	a := &admission{clock: clock}
	if perSecond > 0 {
		a.interval = time.Duration(float64(time.Second) / perSecond)
	}
	return a
}

// wait waits for a stream's turn. The error is a gRPC status.
func (a *admission) wait(ctx context.Context) error {
	pause, ok := a.reserve()
	switch {
	case !ok:
		return status.Error(codes.ResourceExhausted, "too many proxies connect at once")
	case pause <= 0:
		return nil
	}
	select {
	case <-a.clock.After(pause):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (a *admission) reserve() (pause time.Duration, ok bool) {
	if a.interval == 0 {
		return 0, true
	}
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next.Before(now) {
		a.next = now
	}
	burst := max(time.Second, a.interval)
	pause = a.next.Add(a.interval).Sub(now) - burst
	if pause > maxWait {
		return 0, false
	}
	a.next = a.next.Add(a.interval)
	return pause, true
}
