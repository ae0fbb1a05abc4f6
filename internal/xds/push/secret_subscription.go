package push

import (
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Subscription contains the secrets that one stream subscribes to.
type Subscription struct {
	// Stream is the ID of the Client.
	Stream string
	Proxy  *mesh.Proxy
	// Names are sorted SDS names, initially empty. The list must not be changed.
	Names []string
	// Ended is true when the stream has ended.
	Ended bool
}

// secretSubscription reports the secrets of one stream to Options.Secrets after each change.
type secretSubscription struct {
	report func(Subscription) // if nil, nothing is reported

	mu   sync.Mutex
	last Subscription
}

// reportOpened records a new stream and reports it, without names; without a report function it
// only records it.
func (s *secretSubscription) reportOpened(id string, proxy *mesh.Proxy) {
	s.last = Subscription{Stream: id, Proxy: proxy}
	if s.report != nil {
		s.report(s.last)
	}
}

// setNames reports the names of Secrets that the stream subscribes to, if they differ, also in
// order, from the last ones. These are none at first. It does nothing after reportClosed, or
// without a report function. It keeps names.
func (s *secretSubscription) setNames(names []string) {
	if s.report == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Ended || slices.Equal(names, s.last.Names) {
		return
	}
	s.last.Names = names
	s.report(s.last)
}

// reportClosed reports that the stream has ended and has no names. Later names are not reported. It
// does nothing without a report function.
func (s *secretSubscription) reportClosed() {
	if s.report == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Names, s.last.Ended = nil, true
	s.report(s.last)
}
