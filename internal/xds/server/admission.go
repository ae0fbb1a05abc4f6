package server

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// admission bounds the streams that are being opened at the same time, by what they cost. A stream
// is expensive while it is opened, in two steps: its first request is decoded, which may hold a
// name and a hash for each resource of the proxy; and it is put into a class, which may have to be
// created, and its first response is written. Each step needs one of a few places. So the rate is
// what the machine manages, and a thousand proxies at once cost the memory of a few:
//
//   - A request that is not decoded yet is charged to the port's unreadBudget.
//   - Of a decoded request of a proxy without state next to nothing is kept while it waits for the second step.
//   - A request of a proxy with state is large, but the answer is small: it keeps its first place for the second step.
//   - Of requests that are larger than small ones only one is decoded at a time.
//
// A place is for the server's own work only. It is taken when a request has arrived in full, so a
// silent client has none, and it is released while a proxy does not read its response. Plain text
// and TLS have an admission each.
type admission struct {
	clock   push.Clock
	pace    *pace // nil unless an operator asked for one
	reading *gate
	opening *gate
	large   *gate
}

const (
	// maxWait bounds how long a stream waits for a place. Beyond it the proxy had better try
	// another replica, or later.
	maxWait = 20 * time.Second
	// openingLimit is how long a place may be kept after a request was decoded.
	openingLimit = 500 * time.Millisecond
	// readingsPerCPU and openingsPerCPU are more than one because sockets and other goroutines are
	// waited for.
	readingsPerCPU = 2
	openingsPerCPU = 4
	// smallMessage is the size up to which a request on an open stream is decoded without a place.
	smallMessage = 64 << 10
)

func cpus() int { return runtime.GOMAXPROCS(0) }

func newAdmission(openings int, perSecond float64, clock push.Clock) *admission {
	if openings <= 0 {
		openings = openingsPerCPU * cpus()
	}
	return &admission{
		clock: clock, pace: newPace(perSecond, clock),
		reading: newGate(readingsPerCPU*cpus(), maxWaiting), opening: newGate(openings, maxWaiting), large: newGate(1, maxWaiting),
	}
}

var errTooMany = status.Error(codes.ResourceExhausted, "too many proxies connect at once")

// begin waits until a stream may be begun at all, which is at once unless there is a fixed rate.
// The error is a gRPC status.
func (a *admission) begin(ctx context.Context) error {
	pause, ok := a.pace.reserve(maxWait)
	switch {
	case !ok:
		return errTooMany
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

// enter waits for a place of a gate. leave releases it and may be called more than once. If limit
// is not 0 the place is released after that time in any case. The error is a gRPC status.
func (*admission) enter(ctx context.Context, g *gate, limit time.Duration) (leave func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if err := g.acquire(waiting); err != nil {
		if ctx.Err() == nil {
			return nil, errTooMany
		}
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	release := sync.OnceFunc(g.release)
	if limit == 0 {
		return release, nil
	}
	timer := time.AfterFunc(limit, release)
	return func() { timer.Stop(); release() }, nil
}

// decode runs f, which decodes a request of that size, while it holds a place. After that the place
// is kept, for openingLimit at most, until leave is called. The error is a gRPC status.
func (a *admission) decode(ctx context.Context, size, small int, f func()) (leave func(), err error) {
	if leave, err = a.enter(ctx, a.reading, 0); err != nil {
		return nil, err
	}
	if size > small {
		done, err := a.enter(ctx, a.large, 0)
		if err != nil {
			leave()
			return nil, err
		}
		defer done()
	}
	release, decoded := leave, false
	defer func() {
		if !decoded {
			release()
		}
	}()
	f()
	decoded = true
	timer := time.AfterFunc(openingLimit, release)
	return func() { timer.Stop(); release() }, nil
}
