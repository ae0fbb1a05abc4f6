package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// reflectors runs the reflectors.
type reflectors struct {
	*Source
	reach *kindClient
	ctx   context.Context
	group sync.WaitGroup

	mu      sync.Mutex // held while reflectors are started and stopped
	running map[*kindStore]*reflection
}

// reflection is a running reflector.
type reflection struct {
	stop context.CancelFunc
	done chan struct{}
	of   cache.ListerWatcherWithContext
}

// newReflectors returns reflectors of which none has been started. It returns an error if the
// client cannot be made.
func newReflectors(ctx context.Context, s *Source) (*reflectors, error) {
	reach, err := newKindClient(s.o.Client)
	if err != nil {
		return nil, err
	}
	return &reflectors{
		Source:  s,
		reach:   reach,
		ctx:     kube.WithDebugLogging(ctx, s.o.Logger),
		running: map[*kindStore]*reflection{},
	}, nil
}

// startAll starts the reflectors of built-in kinds, and the reflector of the definitions, which
// starts the reflectors of custom kinds. It returns an error for a kind without a client; the
// reflectors before stay started. It takes f.mu.
func (f *reflectors) startAll() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var custom []api.KindInfo
	for _, s := range f.store.shards {
		if s.kind.Custom {
			custom = append(custom, s.kind)
			continue
		}
		lw, err := f.reach.builtIn(s.kind, s.namespace, s.only)
		if err != nil {
			return err
		}
		f.startReflector(s, lw, s)
	}
	if d := f.store.definitions; d != nil {
		k := d.kind
		lw := f.reach.discoveryFallback(f.reach.custom(k.Group, k.Versions[0], k.Plural, "", ""), custom, f.o.Logger)
		f.startReflector(d, lw, newDefinitions(d, custom, f.applyDefinitionChange))
	}
	return nil
}

// applyDefinitionChange starts, replaces or stops the reflectors of a custom kind after a change of
// its definition, and logs that. If the kind is not there any longer, its objects are deleted. It
// takes f.mu.
func (f *reflectors) applyDefinitionChange(kind api.KindInfo, d definition, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.store.shards {
		if s.kind.Kind != kind.Kind {
			continue
		}
		f.stopReflector(s)
		if !there {
			f.o.Logger.Info("a custom kind was uninstalled", "kind", string(kind.Kind), "source", f.Name())
			s.deleteAll()
			continue
		}
		f.o.Logger.Debug("following a custom kind", "kind", string(kind.Kind), "version", d.version, "source", f.Name())
		s.setInstalled()
		f.startReflector(s, f.reach.custom(kind.Group, d.version, kind.Plural, s.namespace, s.only), s)
	}
}

// restartReflector restarts the reflector of a shard, so that it lists the kind again. It does
// nothing if none is running.
func (f *reflectors) restartReflector(s *kindStore) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.running[s]; r != nil {
		f.stopReflector(s)
		f.startReflector(s, r.of, s)
	}
}

// startReflector starts a reflector that reads with lw and fills into, until f.ctx ends or
// stopReflector stops it. It is recorded in f.running, and its failures in s. f.mu must be held.
func (f *reflectors) startReflector(s *kindStore, lw cache.ListerWatcherWithContext, into cache.ReflectorStore) {
	ctx, stop := context.WithCancel(f.ctx)
	r := &reflection{stop: stop, done: make(chan struct{}), of: lw}
	f.running[s] = r
	from := &observed{ListerWatcherWithContext: lw, tell: s.recordResult, pause: f.o.Backoff, clock: f.o.Clock}
	reflector := cache.NewReflectorWithOptions(from, nil, into, cache.ReflectorOptions{
		Name: f.Name(), TypeDescription: string(s.kind.Kind),
		Backoff: &wait.Backoff{Duration: f.o.Backoff, Factor: 2, Jitter: .5, Steps: 20, Cap: f.o.MaxBackoff},
	})
	f.group.Go(func() {
		defer close(r.done)
		reflector.RunWithContext(ctx)
	})
}

// stopReflector stops the reflector of a shard and waits for its end, if it is running. f.mu must
// be held.
func (f *reflectors) stopReflector(s *kindStore) {
	if r := f.running[s]; r != nil {
		delete(f.running, s)
		r.stop()
		<-r.done
	}
}
