package readiness

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// State is the readiness of a control plane, and the handler of /ready. It is safe for concurrent
// use. Use New to create it.
type State struct {
	mu      sync.Mutex
	reason  string // empty: the xDS port is open
	waiting []string
	reasons map[string]func() string // by feed: returns the reason why it is not in sync
	holds   map[string]string        // reasons of other components, by name
	synced  chan struct{}
}

// New returns a State that is not ready, because it is starting.
func New() *State {
	return &State{
		reason: "starting", reasons: map[string]func() string{}, holds: map[string]string{},
		synced: make(chan struct{}),
	}
}

// Explain registers a function that returns why a feed is not in sync yet, or "" if it does not
// know. While the State is not ready, the page calls it and shows the result. A later function for
// the same feed replaces it.
func (s *State) Explain(feed string, reason func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reasons[feed] = reason
}

// ExplainSource registers the method Waiting() of a source, if it has one, as its Explain function.
func (s *State) ExplainSource(source interface{ Name() string }) {
	if w, ok := source.(interface{ Waiting() string }); ok {
		s.Explain(source.Name(), w.Waiting)
	}
}

// details returns the reasons of all feeds that are not in sync yet, sorted by feed, one per line.
// Feeds without a reason are left out.
func (s *State) details() string {
	s.mu.Lock()
	reasons := map[string]func() string{}
	for _, feed := range s.waiting {
		if reason := s.reasons[feed]; reason != nil {
			reasons[feed] = reason
		}
	}
	s.mu.Unlock()
	text := ""
	for _, feed := range slices.Sorted(maps.Keys(reasons)) {
		if reason := reasons[feed](); reason != "" {
			text += "\n" + feed + ": " + reason
		}
	}
	return text
}

// SetWaiting sets the list of feeds that are not in sync yet, which it retains. An empty list
// closes Synced, so a second one panics. The State is not ready in either case, until SetServing is
// called with "".
func (s *State) SetWaiting(feeds []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = feeds
	if len(feeds) > 0 {
		s.reason = "waiting for " + strings.Join(feeds, ", ")
		return
	}
	s.reason = "the xDS port is not open yet"
	close(s.synced)
}

// Waiting returns the feeds that are not in sync yet, as SetWaiting has set them. The list must not
// be modified.
func (s *State) Waiting() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// Synced returns a channel that is closed when all feeds are in sync.
func (s *State) Synced() <-chan struct{} { return s.synced }

// Hold makes readiness fail with a reason, independently of the feeds, until Release is called with
// the same name. A later Hold of the name replaces the reason. The page shows it only when there is
// no other reason.
func (s *State) Hold(name, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[name] = reason
}

// Release ends a Hold. It does nothing if there is none of that name.
func (s *State) Release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holds, name)
}

// SetServing sets the state of the xDS port: "" if proxies can connect, otherwise the reason why
// they cannot.
func (s *State) SetServing(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
}

// IsReady reports whether ServeHTTP responds with 200.
func (s *State) IsReady() bool { return s.notReadyReason() == "" }

// notReadyReason returns the first reason why the control plane is not ready, "" if it is. The
// reason that was set comes first, then the holds, sorted by name.
func (s *State) notReadyReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != "" {
		return s.reason
	}
	for _, name := range slices.Sorted(maps.Keys(s.holds)) {
		return name + ": " + s.holds[name]
	}
	return ""
}

// ServeHTTP responds with 200 if ready, otherwise with 503 and the first reason, followed by the
// details of feeds.
func (s *State) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if reason := s.notReadyReason(); reason != "" {
		http.Error(w, "not ready: "+reason+s.details(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
