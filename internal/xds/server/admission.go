package server

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// admission lets streams in by what they cost. A stream is dear while it is opened, in two steps: its first request is read,
// which may hold a name and a hash for all that the proxy has; and it is put into a class, which may have to be made, and
// its first response is written. For each step it needs one of a few places, which are given in the order of coming. So the
// rate is what the machine manages, and a thousand proxies at once cost the memory of a few:
//
//   - Requests that are not read yet stay in gRPC's window, 64 KB each.
//   - Of a request from a proxy that has nothing, next to nothing is kept while it waits for the second step.
//   - One from a proxy that has state is big, but the answer is small: it keeps its first place for the second step, and
//     hardly waits, however many are before it that need everything.
//
// A place is for the server's own work only. It is given back while a proxy is waited for: one that sends no request, or
// does not read its response.
type admission struct {
	clock   push.Clock
	pace    *pace // nil unless an operator asked for one
	reading *semaphore.Weighted
	opening *semaphore.Weighted
}

const (
	// maxWait bounds how long a stream waits for a place. Beyond it the proxy had better try another replica, or later.
	maxWait = 20 * time.Second
	// openingLimit is how long a place may be kept.
	openingLimit = 500 * time.Millisecond
	// readingLimit is how long of it the first request may take to arrive. It comes right behind the stream's headers.
	readingLimit = 50 * time.Millisecond
	// readingsPerCPU and openingsPerCPU are more than one because sockets and other goroutines are waited for.
	readingsPerCPU = 2
	openingsPerCPU = 4
)

func newAdmission(openings int, perSecond float64, clock push.Clock) *admission {
	cpus := runtime.GOMAXPROCS(0)
	if openings <= 0 {
		openings = openingsPerCPU * cpus
	}
	return &admission{
		clock: clock, pace: newPace(perSecond, clock),
		reading: semaphore.NewWeighted(int64(readingsPerCPU * cpus)), opening: semaphore.NewWeighted(int64(openings)),
	}
}

var errTooMany = status.Error(codes.ResourceExhausted, "too many proxies connect at once")

// begin waits until a stream may be begun at all, which is at once unless there is a fixed rate. The error is a gRPC status.
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

// enter waits for a place. leave gives it back, and may be called more than once; it is called by itself when the place was
// kept for too long. The error is a gRPC status.
func (*admission) enter(ctx context.Context, places *semaphore.Weighted) (leave func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	switch leave, err = hold(waiting, places, openingLimit); {
	case err == nil:
		return leave, nil
	case ctx.Err() == nil:
		return nil, errTooMany
	}
	return nil, status.FromContextError(ctx.Err()).Err()
}
