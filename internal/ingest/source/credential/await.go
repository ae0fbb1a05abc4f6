package credential

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Await makes Run read the objects of w before the proxy requests them, for Options.Linger at
// least. It waits until each of them has been sent, or is known to be missing or unreadable, or
// until the context ends. It returns the keys of the objects that exist and were sent by then.
func (s *Source) Await(ctx context.Context, w Want) []config.Key {
	s.mu.Lock()
	s.expected = append(s.expected, expectation{w, s.o.Now().Add(s.o.Linger)})
	s.mu.Unlock()
	s.wake.Notify()
	for {
		s.mu.Lock()
		there, settled := s.settledObjects(w)
		progress := s.progress.Changed()
		s.mu.Unlock()
		if settled {
			return there
		}
		select {
		case <-ctx.Done():
			return there
		case <-progress:
		}
	}
}

// settledObjects returns the objects of w that the account may read, that exist and whose newest
// known version was sent (there), and whether everything about w is known and sent. Objects that do
// not exist do not prevent that. Nor does a failed watch whose known objects were sent, or a failed
// review of an account without an answer yet, whose private objects are then left out. s.mu must be
// held.
func (s *Source) settledObjects(w Want) (there []config.Key, settled bool) {
	settled = true
	if w.Account != (mesh.Account{}) {
		r := s.permissions[w.Account]
		may, said := s.sent.permissions[w.Account]
		settled = r != nil && (r.known && said && may == r.allowed || !r.known && r.failure != nil)
	}
	for _, k := range s.readableObjects(w) {
		x := s.watches[s.scopeOf(k)]
		switch {
		case x == nil, !x.synced && x.failure == nil:
			settled = false
		case x.objects[k] == nil: // or the last known version, which was sent
		case hasSameHash(s.sent.objects[k], x.objects[k]):
			there = append(there, k)
		default:
			settled = false
		}
	}
	return there, settled
}

// awaitTimeout limits Await, so that a user does not notice a delay when a gateway connects.
const awaitTimeout = 2 * time.Second

// WithAwaitTimeout returns a context that limits the duration of Await.
func WithAwaitTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, awaitTimeout)
}
