package jwks

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options say how keys are fetched, and how often.
type Options struct {
	// Client fetches. It bounds where documents may come from and how much they may be.
	Client *http.Client
	// Refresh is how long keys are used before they are fetched anew; 0: 20 min.
	Refresh time.Duration
	// Random gives numbers in [0, 1), by which replicas and places are kept apart in time.
	Random func() float64
	Log    *slog.Logger
	// Memory, if set, has the keys from before, for places that cannot be reached when this begins.
	Memory Memory
	// Read, if set, makes the text of what an address publishes, where that is not keys that tokens are signed with; Of says what it is, in
	// log lines and for the name of the source.
	Read func(document []byte) (string, error)
	Of   string
	// Fetched, if set, is told of each attempt.
	Fetched func(err error)
}

// MaxTimeout is how long an attempt may take at most, whatever a rule says.
const MaxTimeout = 30 * time.Second

const (
	// usualTimeout is how long one attempt may take where no rule says (JWTRule.timeout).
	usualTimeout   = 5 * time.Second
	defaultRefresh = 20 * time.Minute
	// firstPause is that after a failure; it doubles with each, up to maxPause.
	firstPause, maxPause = time.Second, time.Minute
	// jitter is the part of each pause that is left to chance.
	jitter = 0.2
	// firstWord is after what time something is said of a place, whatever it takes to know: rules wait for it (Hold).
	firstWord = 6 * time.Second
	// linger is how long keys are kept, at least, when nobody asks for them: rules are replaced by taking them away first, too.
	linger = time.Minute
	// maxSources bounds the places, and atOnce how many are asked at the same time.
	maxSources, atOnce = 1000, 16
)

// Source follows the keys of all places that are asked for.
type Source struct {
	o       Options
	wake    chan struct{} // holds one token when Set was called
	results chan result
	slots   chan struct{} // one for each attempt under way
	keeper  *keeper

	mu    sync.Mutex
	wants map[mesh.KeySource]time.Duration
	known map[mesh.KeySource]*mesh.KeySet // what was sent
	sent  chan struct{}                   // is closed when there is more in known
}

// result is what an attempt ended with.
type result struct {
	of  *follower
	set mesh.KeySet
	at  time.Time // when the keys were got, zero if they were not
}

var _ source.Source = (*Source)(nil)

// New makes a Source that nobody has asked anything. It fetches nothing before Run.
func New(o Options) *Source {
	if o.Refresh == 0 {
		o.Refresh = defaultRefresh
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Of = cmp.Or(o.Of, "keys of token issuers")
	if o.Read == nil {
		o.Read = keyset.Published
	}
	if o.Fetched == nil {
		o.Fetched = func(error) {}
	}
	return &Source{
		o: o, wake: make(chan struct{}, 1), results: make(chan result), slots: make(chan struct{}, atOnce),
		known: map[mesh.KeySource]*mesh.KeySet{}, sent: make(chan struct{}), keeper: newKeeper(o.Memory, o.Log),
	}
}

// Name tells it from other sources.
func (s *Source) Name() string { return s.o.Of }

// Set replaces the places that are asked for. For each it says how long an attempt may take; 0: as long as usual.
func (s *Source) Set(wants map[mesh.KeySource]time.Duration) {
	s.mu.Lock()
	s.wants = wants
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run follows what is asked for until the context ends. It is in sync from the start: nothing is asked for yet.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &followers{Source: s, running: &running, of: map[mesh.KeySource]*follower{}}
	running.Go(func() { s.keeper.run(ctx) })
	sweep := time.NewTicker(linger)
	defer sweep.Stop()
	batch := mesh.Batch{{Op: mesh.Synced, Source: s.Name()}}
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
			s.note(batch)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			batch = f.follow(ctx)
		case r := <-s.results:
			batch = f.take(r)
		case <-sweep.C:
			batch = f.sweep(ctx)
		}
	}
}

// note remembers what was sent, and tells who waits for it.
func (s *Source) note(batch mesh.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		switch {
		case e.KeySet == nil:
		case e.Op == mesh.Delete:
			delete(s.known, e.KeySet.Source)
		default:
			s.known[e.KeySet.Source] = e.KeySet
		}
	}
	close(s.sent)
	s.sent = make(chan struct{})
}

// Known gives what was last said of each place.
func (s *Source) Known() map[mesh.KeySource]*mesh.KeySet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// Await waits until something was said of each of the places: their keys, or what is wrong.
func (s *Source) Await(ctx context.Context, places []mesh.KeySource) {
	for {
		s.mu.Lock()
		sent := s.sent
		missing := slices.ContainsFunc(places, func(p mesh.KeySource) bool { return s.known[p] == nil })
		s.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-sent:
		case <-ctx.Done():
			return
		}
	}
}
