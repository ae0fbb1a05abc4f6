package jwks

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// memoryTime bounds an attempt to read or write a Memory.
	memoryTime = 5 * time.Second
	// shutdownTime bounds the last attempt to write.
	shutdownTime = 2 * time.Second
	// settle is how long news are gathered before they are written, and again how long is waited after a write that failed.
	settle, again = time.Second, 10 * time.Second
	// renewal is how often keys that stay the same are written with a new time: they are forgotten by their age.
	renewal = time.Hour
)

// keeper writes fetched keys into a Memory, from which the next run has them.
type keeper struct {
	memory Memory // nil: nothing is kept
	log    *slog.Logger
	wake   chan struct{} // holds one token when there are news

	mu    sync.Mutex
	news  map[mesh.KeySource]kept
	wrote map[mesh.KeySource]kept // what was last taken up as news

	failed bool // the last attempt to write; of the goroutine that writes
}

func newKeeper(m Memory, log *slog.Logger) *keeper {
	return &keeper{memory: m, log: log, wake: make(chan struct{}, 1), news: map[mesh.KeySource]kept{}, wrote: map[mesh.KeySource]kept{}}
}

// load gives what is kept from before; nil: that could not be read.
func (k *keeper) load(ctx context.Context) map[mesh.KeySource]kept {
	if k.memory == nil {
		return map[mesh.KeySource]kept{}
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTime)
	defer cancel()
	text, err := k.memory.Load(ctx)
	var all map[mesh.KeySource]kept
	if err == nil {
		if all, err = remember(text, time.Now()); err != nil {
			all = map[mesh.KeySource]kept{} // it is no better the next time
		}
	}
	if err != nil {
		k.log.Warn("keys of token issuers that were kept cannot be read: issuers that are away have none", "in", k.memory.String(), "err", err)
	}
	return all
}

// got notes keys that were fetched, to be written if they are news.
func (k *keeper) got(place mesh.KeySource, text string, at time.Time) {
	if k.memory == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if was := k.wrote[place]; was.Text == text && at.Sub(was.At) < renewal {
		return
	}
	k.wrote[place], k.news[place] = kept{text, at}, kept{text, at}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// forget lets go of a place that nobody asks for. What is kept of it goes when it is too old.
func (k *keeper) forget(place mesh.KeySource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.wrote, place)
}

// run writes until the context ends, and then once more what was not written yet: the next run may not reach the issuers.
func (k *keeper) run(ctx context.Context) {
	if k.memory == nil {
		return
	}
	defer k.flush(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		}
		for pause := settle; pause > 0; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = 0
			if !k.write(ctx) {
				pause = again
			}
		}
	}
}

// flush writes the news, if there are any, within shutdownTime. ctx has ended.
func (k *keeper) flush(ctx context.Context) {
	k.mu.Lock()
	pending := len(k.news) > 0
	k.mu.Unlock()
	if pending {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		k.write(ctx)
	}
}

// write writes the news. When it fails they stay news, and it gives false.
func (k *keeper) write(ctx context.Context) bool {
	k.mu.Lock()
	news := k.news
	k.news = map[mesh.KeySource]kept{}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, memoryTime)
	defer cancel()
	err := k.memory.Change(ctx, func(old []byte) []byte { return memorize(old, news, time.Now()) })
	level := slog.LevelDebug // one warning, however often it is tried again
	if !k.failed {
		level = slog.LevelWarn
	}
	if k.failed = err != nil; !k.failed {
		return true
	}
	k.log.Log(ctx, level, "keys of token issuers could not be kept", "in", k.memory.String(), "err", err)
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(news, k.news) // what came meanwhile is newer
	k.news = news
	return false
}
