package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// errInternal is the status of a stream that panicked. The details are in the log, and the proxy
// reconnects.
var errInternal = status.Error(
	codes.Internal,
	"internal error: the stream panicked; the control plane's log has the details",
)

// recoverStream must be deferred by the functions of a stream. After a panic it records the panic
// and ends the stream with errInternal; otherwise it does nothing. doing names the function in the
// log. It needs no stack while these functions run, of which each proxy has two.
func (x *session) recoverStream(doing string) {
	if v := recover(); v != nil {
		_ = x.s.recovery.Record(v, "xds", "peer", x.link.peer,
			"identities", strings.Join(x.identities, ","), "doing", doing)
		x.end(errInternal)
	}
}

// panicError returns errInternal and counts the panic for the proxy's backoff if its stream has
// panicked. Otherwise it returns err. err is the error that the stream ended with; a nil err is
// also replaced.
func (x *session) panicError(p *mesh.Proxy, err error) error {
	if cause := context.Cause(x.ctx); !errors.Is(err, push.ErrInternal) && !errors.Is(cause, errInternal) {
		return err
	}
	x.s.panics.recordPanic(x.panicKey(p), x.s.clock.Now())
	return errInternal
}

// panicKey returns the key by which panics are counted: the node ID with the client's identities,
// or else with its address. So a client cannot delay another one by using its node ID.
func (x *session) panicKey(p *mesh.Proxy) string {
	by := strings.Join(x.identities, ",")
	if by == "" {
		by, _, _ = net.SplitHostPort(x.link.peer)
	}
	return p.ID + "|" + by
}

// awaitPanics returns an Unavailable status with the remaining time, in seconds, if the proxy must
// wait because its streams have panicked, otherwise nil. It does not block.
func (x *session) awaitPanics(p *mesh.Proxy) error {
	if wait := x.s.panics.backoffFor(x.panicKey(p), x.s.clock.Now()); wait > 0 {
		return status.Error(
			codes.Unavailable,
			fmt.Sprintf("the streams of this proxy have ended with internal errors; try again in %v",
				wait.Round(time.Second)),
		)
	}
	return nil
}

const (
	// After the first panic of a proxy's stream there is no delay. The second within panicMemory
	// costs minPanicBackoff, and each further one twice as much, up to maxPanicBackoff.
	minPanicBackoff = time.Second
	maxPanicBackoff = time.Minute
	panicMemory     = 5 * time.Minute
	// maxPanicked bounds the proxies that are tracked.
	maxPanicked = 10_000
)

// panicBackoff delays proxies whose streams panic repeatedly, because opening a stream is
// expensive. The zero value is empty.
type panicBackoff struct {
	mu    sync.Mutex
	seen  map[string]panicRecord
	swept time.Time // when expired entries were last removed
}

type panicRecord struct {
	last    time.Time
	backoff time.Duration
}

// recordPanic records a panic of the proxy with this key. The second within panicMemory begins a
// backoff of minPanicBackoff, which each further one doubles up to maxPanicBackoff. If maxPanicked
// keys are recorded, a new key first removes expired ones, at most once in panicMemory; it is
// ignored if none was removed.
func (b *panicBackoff) recordPanic(key string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.seen[key]
	switch {
	case !known || now.Sub(p.last) > panicMemory:
		p.backoff = 0
	case p.backoff == 0:
		p.backoff = minPanicBackoff
	default:
		p.backoff = min(2*p.backoff, maxPanicBackoff)
	}
	p.last = now
	if b.seen == nil {
		b.seen = map[string]panicRecord{}
	}
	if !known && len(b.seen) >= maxPanicked && now.Sub(b.swept) > panicMemory {
		b.swept = now
		maps.DeleteFunc(b.seen, func(_ string, old panicRecord) bool { return now.Sub(old.last) > panicMemory })
	}
	if !known && len(b.seen) >= maxPanicked {
		return
	}
	b.seen[key] = p
}

// backoffFor returns how long the proxy with this key must wait before its next stream, zero if it
// may open one now.
func (b *panicBackoff) backoffFor(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.seen[key]
	if !known {
		return 0
	}
	return max(0, p.last.Add(p.backoff).Sub(now))
}
