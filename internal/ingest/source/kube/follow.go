package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// follower runs the reflectors.
type follower struct {
	*Source
	reach *reach
	ctx   context.Context
	group sync.WaitGroup

	mu      sync.Mutex // held while reflectors are started and stopped
	running map[*shard]*reflection
}

// reflection is a reflector that runs.
type reflection struct {
	stop context.CancelFunc
	done chan struct{}
	of   cache.ListerWatcherWithContext
}

func newFollower(ctx context.Context, s *Source) (*follower, error) {
	reach, err := newReach(s.o.Client)
	if err != nil {
		return nil, err
	}
	return &follower{Source: s, reach: reach, ctx: kube.WithDebugLogging(ctx, s.o.Logger), running: map[*shard]*reflection{}}, nil
}

// begin follows the built-in kinds, and the definitions of the custom ones, which say when to follow those.
func (f *follower) begin() error {
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
		f.start(s, lw, s)
	}
	if d := f.store.definitions; d != nil {
		k := d.kind
		lw := f.reach.discovering(f.reach.custom(k.Group, k.Versions[0], k.Plural, "", ""), custom, f.o.Logger)
		f.start(d, lw, newDefinitions(d, custom, f.defined))
	}
	return nil
}

// defined follows a custom kind as its definition has it, or not any more.
func (f *follower) defined(kind api.KindInfo, d definition, there bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.store.shards {
		if s.kind.Kind != kind.Kind {
			continue
		}
		f.stop(s)
		if !there {
			f.o.Logger.Info("a custom kind was uninstalled", "kind", string(kind.Kind), "source", f.Name())
			s.clear()
			continue
		}
		f.o.Logger.Debug("following a custom kind", "kind", string(kind.Kind), "version", d.version, "source", f.Name())
		s.setInstalled()
		f.start(s, f.reach.custom(kind.Group, d.version, kind.Plural, s.namespace, s.only), s)
	}
}

// again lists a kind anew, as the API server has it now.
func (f *follower) again(s *shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.running[s]; r != nil {
		f.stop(s)
		f.start(s, r.of, s)
	}
}

// start runs a reflector that fills a store. The follower is locked.
func (f *follower) start(s *shard, lw cache.ListerWatcherWithContext, into cache.ReflectorStore) {
	ctx, stop := context.WithCancel(f.ctx)
	r := &reflection{stop: stop, done: make(chan struct{}), of: lw}
	f.running[s] = r
	from := &observed{ListerWatcherWithContext: lw, tell: s.told, pause: f.o.Backoff, clock: f.o.Clock}
	reflector := cache.NewReflectorWithOptions(from, nil, into, cache.ReflectorOptions{
		Name: f.Name(), TypeDescription: string(s.kind.Kind),
		Backoff: &wait.Backoff{Duration: f.o.Backoff, Factor: 2, Jitter: .5, Steps: 20, Cap: f.o.MaxBackoff},
	})
	f.group.Go(func() {
		defer close(r.done)
		reflector.RunWithContext(ctx)
	})
}

// stop ends the reflector of a shard, if it has one. The follower is locked.
func (f *follower) stop(s *shard) {
	if r := f.running[s]; r != nil {
		delete(f.running, s)
		r.stop()
		<-r.done
	}
}
