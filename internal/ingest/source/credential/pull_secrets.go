package credential

import (
	"context"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// PullSecrets reads the Secrets that plugins name (imagePullSecret) from the API server of the
// config cluster. Its Hold keeps plugins back until their Secrets are known. It is also the feed
// that reports when the wait for a Secret is over.
type PullSecrets struct {
	// Hold is a converter of the pipeline.
	Hold *SecretHold

	source *Source
	wake   notify.Wake // there may be something to wait for

	mu    sync.Mutex
	named []config.Key
	// settled are the named Secrets whose wait has ended. setNamed removes Secrets that are not
	// named any longer, because Hold forgets them too.
	settled []config.Key
}

// pullSecretsStream is the name under which the Secrets of plugins are requested, beside the names
// of streams.
const pullSecretsStream = "pull secrets of plugins"

// NewPullSecrets returns PullSecrets that reads from source. secretOf returns the Secret that an
// object names, and false if it names none.
func NewPullSecrets(source *Source, secretOf func(*config.Config) (config.Key, bool)) *PullSecrets {
	p := &PullSecrets{source: source, wake: notify.NewWake()}
	p.Hold = NewSecretHold(secretOf, p.setNamed)
	return p
}

// Name returns the name of the feed.
func (*PullSecrets) Name() string { return pullSecretsStream }

// setNamed sets the Secrets that plugins name and wakes Run. Settled ones that are no longer named
// are forgotten.
func (p *PullSecrets) setNamed(list []config.Key) {
	p.mu.Lock()
	p.named = list
	p.settled = slices.DeleteFunc(p.settled, func(k config.Key) bool { return !slices.Contains(list, k) })
	p.mu.Unlock()
	p.source.SetWant(pullSecretsStream, Want{Objects: list})
	p.wake.Notify()
}

// namedNow returns the Secrets that plugins name at present, sorted. Callers must not modify the
// list.
func (p *PullSecrets) namedNow() []config.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named
}

// waiting returns the named Secrets for which no end of the wait was emitted.
func (p *PullSecrets) waiting() []config.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.named), func(k config.Key) bool { return slices.Contains(p.settled, k) })
}

// markSettled records that the wait for each Secret of the list has ended. A Secret that is no
// longer named is skipped: it may be named again later. It must be called before the end of the
// wait is emitted, so that no later change of the names is missed.
func (p *PullSecrets) markSettled(list []config.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range list {
		if slices.Contains(p.named, k) {
			p.settled = append(p.settled, k)
		}
	}
}

// Run waits for each newly named Secret, for a limited time, and then emits the end of the wait,
// until ctx ends; then it returns nil. It sends Synced at once. A Secret that does not arrive in
// that time is settled all the same.
func (p *PullSecrets) Run(ctx context.Context, out chan<- mesh.Batch) error {
	batch := mesh.Batch{{Op: mesh.Synced, Source: p.Name()}}
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-p.wake.C():
		case <-ctx.Done():
			return nil
		}
		waiting := p.waiting()
		p.await(ctx, waiting)
		p.markSettled(waiting)
		batch = nil
		for _, k := range waiting {
			batch = append(batch, SecretSettled(k))
		}
	}
}

// await waits until each Secret has been sent or is known to be unavailable, up to the timeout of
// WithAwaitTimeout. It returns the keys of the existing ones.
func (p *PullSecrets) await(ctx context.Context, list []config.Key) []config.Key {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := WithAwaitTimeout(ctx)
	defer cancel()
	return p.source.Await(ctx, Want{Objects: list})
}

// AwaitNamed waits for the Secrets that plugins name now, for a limited time, and returns the keys
// of the existing ones.
func (p *PullSecrets) AwaitNamed(ctx context.Context) []config.Key { return p.await(ctx, p.namedNow()) }
