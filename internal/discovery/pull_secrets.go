package discovery

import (
	"context"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// pullSecrets has the Secrets read that plugins name (imagePullSecret), from the API server that config is read from, and keeps plugins
// back until those are known. It is the feed that says when waiting for one has an end.
type pullSecrets struct {
	credentials *credentials
	hold        *credential.SecretHold
	wake        chan struct{} // holds one token when there may be something to wait for

	mu    sync.Mutex
	named []config.Key
}

// pullSecretsStream is by what name the Secrets of plugins are asked for, beside those of streams.
const pullSecretsStream = "pull secrets of plugins"

func newPullSecrets(c *credentials) *pullSecrets {
	p := &pullSecrets{credentials: c, wake: make(chan struct{}, 1)}
	p.hold = credential.NewSecretHold(plugin.PullSecret, p.want)
	return p
}

// Name tells it from other feeds.
func (*pullSecrets) Name() string { return pullSecretsStream }

// want is told which Secrets are named.
func (p *pullSecrets) want(list []config.Key) {
	p.mu.Lock()
	p.named = list
	p.mu.Unlock()
	p.credentials.SetWant(pullSecretsStream, credential.Want{Objects: list})
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pullSecrets) current() []config.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named
}

// Run waits for what is named, each Secret for a bounded time, until the context ends.
func (p *pullSecrets) Run(ctx context.Context, out chan<- mesh.Batch) error {
	batch := mesh.Batch{{Op: mesh.Synced, Source: p.Name()}}
	var settled []config.Key
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
		named := p.current()
		waiting := slices.DeleteFunc(slices.Clone(named), func(k config.Key) bool { return slices.Contains(settled, k) })
		p.read(ctx, waiting)
		batch = nil
		for _, k := range waiting {
			batch = append(batch, credential.SecretSettled(k))
		}
		settled = named
	}
}

// read waits until it is known of Secrets what they hold, or that they cannot be had, and gives those that are there.
func (p *pullSecrets) read(ctx context.Context, list []config.Key) []config.Key {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := credential.WithAwaitTimeout(ctx)
	defer cancel()
	return p.credentials.Await(ctx, credential.Want{Objects: list})
}

// await has proxies served with the Secrets of the plugins that there are at the start: those that come back to a control plane that was
// started anew would be told otherwise that there are none.
func (p *pullSecrets) await(ctx context.Context) {
	ctx, cancel := credential.WithAwaitTimeout(ctx)
	defer cancel()
	p.credentials.await(ctx, p.read(ctx, p.current()))
}
