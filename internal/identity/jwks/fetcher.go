package jwks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// fetchers are the running key fetchers. Only the goroutine of Source.Run uses it.
type fetchers struct {
	*Source
	running  *sync.WaitGroup
	bySource map[mesh.KeySource]*keyFetcher
	// cached keys of sources not yet wanted; nil until loaded
	cached map[mesh.KeySource]cachedKeys
}

// keyFetcher fetches the keys of one source repeatedly.
type keyFetcher struct {
	source   mesh.KeySource
	timeout  atomic.Int64 // of one fetch, in nanoseconds; 0 selects defaultTimeout
	stop     context.CancelFunc
	reported mesh.KeySet // last reported result; used by Source.Run
	cached   string      // keys of an earlier run, used until a fetch succeeds
	idle     bool        // not wanted at the last removeUnused
}

// startFetchers starts a fetcher for each wanted source without one, and updates the timeouts of
// the others. It loads the cache before the first; a fetcher begins with cached keys that are not
// too old. For sources beyond maxSources it returns events with a fault instead. Fetchers that are
// no longer wanted run until removeUnused stops them.
func (f *fetchers) startFetchers(ctx context.Context) mesh.Batch {
	f.mu.Lock()
	wants := f.wanted
	f.mu.Unlock()
	// load the cache once rules are known: then the API server is reachable
	if f.cached == nil && len(wants) > 0 {
		f.cached = f.cacheWriter.loadCache(ctx)
	}
	var batch mesh.Batch
	for _, source := range slices.SortedFunc(maps.Keys(wants), compareSources) {
		if one := f.bySource[source]; one != nil {
			one.timeout.Store(int64(wants[source]))
			continue
		}
		if len(f.bySource) >= maxSources {
			one := &mesh.KeySet{
				Source: source,
				Fault:  fmt.Sprintf("too many key sources: only %d are fetched", maxSources),
			}
			batch = append(batch, mesh.Event{Source: f.Name(), KeySet: one})
			continue
		}
		fetchCtx, stop := context.WithCancel(ctx)
		one := &keyFetcher{source: source, stop: stop, reported: mesh.KeySet{Source: source}}
		if k := f.cached[source]; time.Since(k.FetchedAt) < cacheTTL {
			one.cached = k.Text
		}
		delete(f.cached, source)
		one.timeout.Store(int64(wants[source]))
		f.bySource[source] = one
		f.running.Go(func() { f.runFetcher(fetchCtx, one) })
	}
	return batch
}

// compareSources orders sources by URI and issuer.
func compareSources(a, b mesh.KeySource) int {
	return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Issuer, b.Issuer))
}

// applyResult records the result of a fetch, passes fetched keys to the cache writer, and returns
// the event for the key set. It returns nil if the key set is unchanged, and does nothing if the
// fetcher was stopped.
func (f *fetchers) applyResult(r result) mesh.Batch {
	if f.bySource[r.fetcher.source] != r.fetcher {
		return nil // stopped by removeUnused
	}
	if !r.fetchedAt.IsZero() {
		f.cacheWriter.recordFetched(r.fetcher.source, r.set.Text, r.fetchedAt)
	}
	if r.fetcher.reported == r.set {
		return nil
	}
	if r.set.Text != r.fetcher.reported.Text {
		f.o.Log.Info(
			"fetched: "+f.o.Description,
			"from", r.fetcher.source.String(),
			"rotated", r.fetcher.reported.Text != "",
		)
	}
	r.fetcher.reported = r.set
	return mesh.Batch{{Source: f.Name(), KeySet: &r.set}}
}

// removeUnused stops the fetchers of sources that were not wanted at this and the previous call.
// Then it starts fetchers for which there is room now. It returns the events that delete the keys
// of stopped fetchers and the faults of unwanted sources without one, followed by the events of
// startFetchers.
func (f *fetchers) removeUnused(ctx context.Context) mesh.Batch {
	f.mu.Lock()
	wants := f.wanted
	var batch mesh.Batch
	for source := range f.reported { // including sources beyond maxSources
		if _, wanted := wants[source]; !wanted && f.bySource[source] == nil {
			batch = append(batch, deleteEvent(f.Name(), source))
		}
	}
	f.mu.Unlock()
	for source, one := range f.bySource {
		_, wanted := wants[source]
		if !wanted && one.idle {
			one.stop()
			delete(f.bySource, source)
			f.cacheWriter.forgetSource(source)
			batch = append(batch, deleteEvent(f.Name(), source))
		}
		one.idle = !wanted
	}
	return append(batch, f.startFetchers(ctx)...)
}

// deleteEvent returns the event that deletes the keys of a source.
func deleteEvent(name string, source mesh.KeySource) mesh.Event {
	return mesh.Event{Op: mesh.Delete, Source: name, KeySet: &mesh.KeySet{Source: source}}
}

// runFetcher fetches the source's keys until ctx ends, after each success at Refresh and after
// failures with a backoff. It sends each result to Run; after a failure, that is the last known
// keys with a fault. If the first fetch takes longer than pendingReportDelay, it reports the cached
// keys with a fault.
func (s *Source) runFetcher(ctx context.Context, f *keyFetcher) {
	reader := documentReader{client: s.o.Client, parse: s.o.Parse}
	known, failures := mesh.KeySet{Source: f.source, Text: f.cached}, 0
	backoff := retry.NewBackoff(minBackoff, min(maxBackoff, s.o.Refresh))
	reportSent := make(chan struct{})
	late := time.AfterFunc(pendingReportDelay, func() {
		defer close(reportSent)
		s.sendResult(
			ctx,
			result{
				fetcher: f,
				set: mesh.KeySet{
					Source: f.source,
					Text:   f.cached,
					Fault:  "the first fetch of the keys has not finished",
				},
			},
		)
	})
	for {
		text, err := s.fetchOnce(ctx, f, &reader)
		if late != nil && !late.Stop() {
			<-reportSent // otherwise the pending report could overwrite the result
		}
		late = nil
		if ctx.Err() != nil {
			return
		}
		var got time.Time
		pause := s.o.Refresh
		if s.o.OnFetch(err); err == nil {
			known.Text, known.Fault, failures, got = text, "", 0, time.Now()
			backoff.Reset()
		} else {
			pause = backoff.NextBackOff()
			level := slog.LevelDebug // one warning for each kind of failure, not for each retry
			if failures++; known.Fault != faultText(err) {
				level = slog.LevelWarn
			}
			known.Fault = faultText(err)
			s.o.Log.Log(
				ctx,
				level,
				"fetch failed, retrying: "+s.o.Description,
				"from", f.source.String(),
				"failures", failures,
				"inUse", known.Text != "",
				"err", err,
			)
		}
		s.sendResult(ctx, result{f, known, got})
		select {
		case <-time.After(s.subtractJitter(pause)):
		case <-ctx.Done():
			return
		}
	}
}

// sendResult passes a result to Run, and waits until it has taken it or ctx ends.
func (s *Source) sendResult(ctx context.Context, r result) {
	select {
	case s.results <- r:
	case <-ctx.Done():
	}
}

// fetchOnce waits for a slot and returns the fetched keys of the source. The fetch may take the
// source's timeout, by default defaultTimeout and at most MaxTimeout. It returns the error of
// readKeys, or of ctx if that ends before a slot is free.
func (s *Source) fetchOnce(ctx context.Context, f *keyFetcher, reader *documentReader) (string, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	timeout := min(cmp.Or(time.Duration(f.timeout.Load()), defaultTimeout), MaxTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return reader.readKeys(ctx, f.source)
}

// subtractJitter shortens a delay at random, by the part jitter at most.
func (s *Source) subtractJitter(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (1 - jitter*s.o.Random()))
}
