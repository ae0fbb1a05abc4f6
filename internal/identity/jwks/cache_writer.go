package jwks

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// cacheTimeout bounds one read or write of a KeyCache.
	cacheTimeout = 5 * time.Second
	// shutdownTimeout bounds the last write.
	shutdownTimeout = 2 * time.Second
	// writeDelay is how long fetched keys are collected before a write. retryDelay is the time
	// until a failed write is retried.
	writeDelay, retryDelay = time.Second, 10 * time.Second
	// rewriteInterval is how often unchanged keys are written with a new time, so that they do not
	// expire.
	rewriteInterval = time.Hour
)

// cacheWriter writes fetched keys into a KeyCache, from which the next run loads them.
type cacheWriter struct {
	cache KeyCache // if nil, nothing is cached
	log   *slog.Logger
	wake  notify.Wake // wakes run when keys are pending

	mu       sync.Mutex
	pending  map[mesh.KeySource]cachedKeys
	recorded map[mesh.KeySource]cachedKeys // the keys last added to pending

	failed bool // whether the last write failed; used by run only
}

// newCacheWriter returns a writer to the cache m, which may be nil. It writes nothing before run.
func newCacheWriter(m KeyCache, log *slog.Logger) *cacheWriter {
	return &cacheWriter{
		cache:    m,
		log:      log,
		wake:     notify.NewWake(),
		pending:  map[mesh.KeySource]cachedKeys{},
		recorded: map[mesh.KeySource]cachedKeys{},
	}
}

// loadCache returns the cached keys of earlier runs, empty without a cache or for invalid data. It
// logs errors, and returns nil only if the read failed and should be retried.
func (k *cacheWriter) loadCache(ctx context.Context) map[mesh.KeySource]cachedKeys {
	if k.cache == nil {
		return map[mesh.KeySource]cachedKeys{}
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	text, err := k.cache.Load(ctx)
	var all map[mesh.KeySource]cachedKeys
	if err == nil {
		if all, err = parseCache(text, time.Now()); err != nil {
			all = map[mesh.KeySource]cachedKeys{} // invalid data stays invalid: do not retry
		}
	}
	if err != nil {
		k.log.Warn(
			"reading cached keys of token issuers failed; unreachable issuers have no keys",
			"cache", k.cache.String(),
			"err", err,
		)
	}
	return all
}

// recordFetched adds the keys (text) that were fetched from a source to the pending ones, and wakes
// run. It does nothing without a cache, or if the same keys were recorded within rewriteInterval.
func (k *cacheWriter) recordFetched(source mesh.KeySource, text string, at time.Time) {
	if k.cache == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if was := k.recorded[source]; was.Text == text && at.Sub(was.FetchedAt) < rewriteInterval {
		return
	}
	k.recorded[source], k.pending[source] = cachedKeys{text, at}, cachedKeys{text, at}
	k.wake.Notify()
}

// forgetSource forgets which keys of an unused source were recorded last, so recordFetched accepts
// them again at once. Pending keys are still written, and cached keys expire by their age.
func (k *cacheWriter) forgetSource(source mesh.KeySource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.recorded, source)
}

// run writes pending keys until ctx ends, and then the keys that are still pending, because the
// next run may not reach the issuers. It returns at once without a cache. Keys that arrive within
// writeDelay are written together; a failed write is repeated after retryDelay.
func (k *cacheWriter) run(ctx context.Context) {
	if k.cache == nil {
		return
	}
	defer k.flushPending(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake.C():
		}
		for pause := writeDelay; pause > 0; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = 0
			if !k.writePending(ctx) {
				pause = retryDelay
			}
		}
	}
}

// flushPending writes the pending keys, if any, within shutdownTimeout, although ctx has ended.
func (k *cacheWriter) flushPending(ctx context.Context) {
	k.mu.Lock()
	pending := len(k.pending) > 0
	k.mu.Unlock()
	if pending {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		k.writePending(ctx)
	}
}

// writePending writes the pending keys and reports whether it succeeded. After a failure they stay
// pending, and the first of several failures is logged as a warning.
func (k *cacheWriter) writePending(ctx context.Context) bool {
	k.mu.Lock()
	news := k.pending
	k.pending = map[mesh.KeySource]cachedKeys{}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	err := k.cache.Update(ctx, func(old []byte) []byte { return mergeCache(old, news, time.Now()) })
	level := slog.LevelDebug // one warning for repeated failures
	if !k.failed {
		level = slog.LevelWarn
	}
	if k.failed = err != nil; !k.failed {
		return true
	}
	k.log.Log(
		ctx,
		level,
		"writing the cache of token issuers' keys failed, retrying",
		"cache", k.cache.String(),
		"err", err,
	)
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(news, k.pending) // keys recorded during the write are newer
	k.pending = news
	return false
}
