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

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Source.
type Options struct {
	// Client fetches the documents. It must bound their addresses and size.
	Client *http.Client
	// Refresh is the interval of fetches (default 20 min).
	Refresh time.Duration
	// Random returns numbers in [0, 1), for the jitter between replicas and sources.
	Random func() float64
	Log    *slog.Logger
	// Cache, if set, provides the keys of earlier runs for sources that cannot be reached at the
	// start.
	Cache KeyCache
	// Parse, if set, converts fetched documents that are not key sets. Description names their
	// content in logs and in the name of the source.
	Parse       func(document []byte) (string, error)
	Description string
	// OnFetch, if set, is called with the error of each fetch, or nil.
	OnFetch func(err error)
}

// MaxTimeout is the maximum timeout of one fetch.
const MaxTimeout = 30 * time.Second

const (
	// defaultTimeout is the timeout of one fetch if the rule has none (JWTRule.timeout).
	defaultTimeout = 5 * time.Second
	defaultRefresh = 20 * time.Minute
	// minBackoff is the delay after the first failure. It doubles with each further failure, up to
	// maxBackoff.
	minBackoff, maxBackoff = time.Second, time.Minute
	// jitter is the random part of each delay.
	jitter = 0.2
	// pendingReportDelay is the time after which a source without a result is reported as pending,
	// because rules wait for a report (KeyBarrier).
	pendingReportDelay = 6 * time.Second
	// unusedInterval is the interval of removeUnused, and so the minimum time that keys of unused
	// sources are kept. Rules may be replaced by deleting them first.
	unusedInterval = time.Minute
	// maxSources bounds the sources, maxConcurrentFetches the concurrent fetches.
	maxSources, maxConcurrentFetches = 1000, 16
)

// Source fetches the keys of all wanted sources and emits them as events.
type Source struct {
	o           Options
	wake        notify.Wake // wakes Run after SetWanted
	results     chan result
	slots       chan struct{} // one token per running fetch
	cacheWriter *cacheWriter

	mu              sync.Mutex
	wanted          map[mesh.KeySource]time.Duration
	reported        map[mesh.KeySource]*mesh.KeySet // last emitted key sets
	reportedChanged notify.Broadcast                // notified when reported changes
}

// result is the outcome of one fetch.
type result struct {
	fetcher   *keyFetcher
	set       mesh.KeySet
	fetchedAt time.Time // zero if the fetch failed
}

var _ source.Source = (*Source)(nil)

// New returns a Source that fetches nothing before Run and SetWanted. Client and Random must be
// set; Log, OnFetch and Cache may be nil. Refresh defaults to 20 min, Parse to
// keyset.ParsePublished, Description to "keys of token issuers".
func New(o Options) *Source {
	if o.Refresh == 0 {
		o.Refresh = defaultRefresh
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Description = cmp.Or(o.Description, "keys of token issuers")
	if o.Parse == nil {
		o.Parse = keyset.ParsePublished
	}
	if o.OnFetch == nil {
		o.OnFetch = func(error) {}
	}
	return &Source{
		o:           o,
		wake:        notify.NewWake(),
		results:     make(chan result),
		slots:       make(chan struct{}, maxConcurrentFetches),
		reported:    map[mesh.KeySource]*mesh.KeySet{},
		cacheWriter: newCacheWriter(o.Cache, o.Log),
	}
}

// Name returns Options.Description.
func (s *Source) Name() string { return s.o.Description }

// SetWanted replaces the set of wanted sources, and wakes Run. The values are the timeouts of a
// fetch; 0 selects the default. The caller must not change the map afterwards.
func (s *Source) SetWanted(wanted map[mesh.KeySource]time.Duration) {
	s.mu.Lock()
	s.wanted = wanted
	s.mu.Unlock()
	s.wake.Notify()
}

// Run fetches the wanted sources and emits their keys until ctx ends. Then it waits for the
// fetchers and the last write of the cache, and returns nil. It emits Synced at once, because no
// source is wanted before the first rules are known.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &fetchers{Source: s, running: &running, bySource: map[mesh.KeySource]*keyFetcher{}}
	running.Go(func() { s.cacheWriter.run(ctx) })
	unused := time.NewTicker(unusedInterval)
	defer unused.Stop()
	batch := mesh.Batch{{Op: mesh.Synced, Source: s.Name()}}
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
			s.recordReported(batch)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake.C():
			batch = f.startFetchers(ctx)
		case r := <-s.results:
			batch = f.applyResult(r)
		case <-unused.C:
			batch = f.removeUnused(ctx)
		}
	}
}

// recordReported stores the emitted key sets, or deletes them, and wakes up WaitFor. Events without
// a key set are ignored.
func (s *Source) recordReported(batch mesh.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		switch {
		case e.KeySet == nil:
		case e.Op == mesh.Delete:
			delete(s.reported, e.KeySet.Source)
		default:
			s.reported[e.KeySet.Source] = e.KeySet
		}
	}
	s.reportedChanged.Notify()
}

// KeySets returns a copy of the last emitted key set of each source.
func (s *Source) KeySets() map[mesh.KeySource]*mesh.KeySet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.reported)
}

// WaitFor blocks until each of the sources has reported keys or an error, or ctx ends; it does not
// report which. A source that is not wanted is never reported, so ctx must end then.
func (s *Source) WaitFor(ctx context.Context, sources []mesh.KeySource) {
	for {
		s.mu.Lock()
		changed := s.reportedChanged.Changed()
		missing := slices.ContainsFunc(sources, func(p mesh.KeySource) bool { return s.reported[p] == nil })
		s.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
