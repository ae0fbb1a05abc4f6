package credential

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Await has what a proxy is expected to ask for read before it does, and waits until it was sent, or is known not to be
// there, or not to be readable, or the context ends. It gives the objects that are there.
func (s *Source) Await(ctx context.Context, w Want) []config.Key {
	s.mu.Lock()
	s.expected = append(s.expected, expectation{w, s.o.Now().Add(s.o.Linger)})
	s.mu.Unlock()
	s.rouse()
	for {
		s.mu.Lock()
		there, settled := s.settled(w)
		progress := s.progress
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

// settled says whether all that can be said of a Want was, and which objects are there. s.mu is held.
func (s *Source) settled(w Want) (there []config.Key, settled bool) {
	settled = true
	if w.Account != (mesh.Account{}) {
		r := s.rights[w.Account]
		may, said := s.said.rights[w.Account]
		settled = r != nil && (r.known && said && may == r.may || !r.known && r.failure != nil)
	}
	for _, k := range s.visible(w) {
		x := s.watches[s.placeOf(k)]
		switch {
		case x == nil, !x.synced && x.failure == nil:
			settled = false
		case x.objects[k] == nil: // or the last known one, which was sent
		case same(s.said.objects[k], x.objects[k]):
			there = append(there, k)
		default:
			settled = false
		}
	}
	return there, settled
}

// patience is a bound for Await that keeps a gateway from being served for no longer than a person would notice.
const patience = 2 * time.Second

// Patience gives a context in which Await waits no longer than is worth it.
func Patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience)
}
