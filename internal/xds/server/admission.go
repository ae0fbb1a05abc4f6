package server

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/clock"
)

// admission limits how many streams are opened at the same time, by their cost. Opening a stream is
// expensive in two steps. First its first request is decoded, which may hold a name and a hash for
// each resource of the proxy. Then it is put into a class, which may have to be created, and its
// first response is written. Each step needs one of a few places. So the rate adapts to the
// machine, and a thousand proxies at once cost the memory of a few:
//
//   - A request that is not decoded yet is charged to the port's unreadBudget.
//   - A decoded request of a proxy without state keeps almost no memory while waiting for its
//     second step.
//   - A request of a proxy with state is large, but the response is small. It keeps its first place
//     for the second step.
//   - Only one request larger than the small ones is decoded at a time.
//
// A place is only for the server's own work. It is acquired when a request has arrived in full, so
// a silent client has none. It is released while a proxy does not read its response. Plain text and
// TLS have an admission each.
type admission struct {
	clock   clock.Clock
	limiter *rateLimiter // nil if no rate is configured
	reading *gate
	opening *gate
	large   *gate
}

const (
	// maxWait bounds how long a stream waits for a place. After that the proxy is refused and may
	// try another replica.
	maxWait = 20 * time.Second
	// openingLimit is how long a place may be kept after a request was decoded.
	openingLimit = 500 * time.Millisecond
	// readingsPerCPU and openingsPerCPU are more than one because holders of a place also wait for
	// sockets and other goroutines.
	readingsPerCPU = 2
	openingsPerCPU = 4
	// smallMessage is the size up to which a request on an open stream is decoded without a place.
	smallMessage = 64 << 10
)

// cpus returns how many CPUs the program may use at once (GOMAXPROCS).
func cpus() int { return runtime.GOMAXPROCS(0) }

// newAdmission returns an admission for one kind of connections. openings bounds the streams that
// are opened at once, openingsPerCPU for each CPU if it is not positive. perSecond bounds how many
// begin in a second, without limit if it is not positive.
func newAdmission(openings int, perSecond float64, c clock.Clock) *admission {
	if openings <= 0 {
		openings = openingsPerCPU * cpus()
	}
	return &admission{
		clock:   c,
		limiter: newRateLimiter(perSecond, c),
		reading: newGate(
			readingsPerCPU*cpus(),
			maxWaiting,
		),
		opening: newGate(openings, maxWaiting),
		large:   newGate(1, maxWaiting),
	}
}

var errTooMany = status.Error(codes.ResourceExhausted, "too many proxies are connecting; retry later")

// waitForRate waits until a stream may begin by the configured rate, and returns nil. Without a
// configured rate it does not wait. It returns errTooMany, without waiting, if the wait would
// exceed maxWait, and ctx's error as a gRPC status if ctx ends.
func (a *admission) waitForRate(ctx context.Context) error {
	pause, ok := a.limiter.reserve(maxWait)
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

// acquirePlace waits for a place of gate g, for maxWait at most. leave releases the place and may
// be called more than once; if limit is not 0, the place is released after limit in any case. On an
// error, errTooMany or ctx's error as a gRPC status, leave is nil.
func (*admission) acquirePlace(ctx context.Context, g *gate, limit time.Duration) (leave func(), err error) {
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

// decodeInPlace runs f, which decodes a request of size bytes, while it holds a decoding place. A
// request larger than small also needs the only place for large ones, until f returns. The first
// place is kept until leave is called, for openingLimit at most. If no place is free in time, it
// returns a gRPC status, a nil leave, and does not run f. If f panics, both places are released.
func (a *admission) decodeInPlace(ctx context.Context, size, small int, f func()) (leave func(), err error) {
	if leave, err = a.acquirePlace(ctx, a.reading, 0); err != nil {
		return nil, err
	}
	if size > small {
		done, err := a.acquirePlace(ctx, a.large, 0)
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
