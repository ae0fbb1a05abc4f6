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

// pullSecrets reads the Secrets that plugins reference (imagePullSecret) from the API server of the
// config cluster. It keeps plugins back until their Secrets are known. It is also the feed that
// reports when the wait for a Secret is over.
type pullSecrets struct {
	credentials *credentials
	hold        *credential.SecretHold
	wake        chan struct{} // holds one token when there may be something to wait for

	mu    sync.Mutex
	named []config.Key
}

// pullSecretsStream is the name under which the Secrets of plugins are requested, beside the names
// of streams.
const pullSecretsStream = "pull secrets of plugins"

func newPullSecrets(c *credentials) *pullSecrets {
	p := &pullSecrets{credentials: c, wake: make(chan struct{}, 1)}
	p.hold = credential.NewSecretHold(plugin.PullSecret, p.want)
	return p
}

// Name returns the name of the feed.
func (*pullSecrets) Name() string { return pullSecretsStream }

// want sets the Secrets that plugins reference and wakes Run.
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

// Run waits for each newly referenced Secret for a limited time, and then emits the end of the
// wait, until ctx ends. The feed is in sync at once.
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

// read waits until each Secret is known or known to be unavailable, up to the timeout of package
// credential. It returns the existing ones.
func (p *pullSecrets) read(ctx context.Context, list []config.Key) []config.Key {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := credential.WithAwaitTimeout(ctx)
	defer cancel()
	return p.credentials.Await(ctx, credential.Want{Objects: list})
}

// await delays the start until the Secrets of the existing plugins are in a snapshot, up to the
// timeout of package credential. Otherwise proxies that reconnect to a restarted control plane
// would be configured as if there were none.
func (p *pullSecrets) await(ctx context.Context) {
	ctx, cancel := credential.WithAwaitTimeout(ctx)
	defer cancel()
	p.credentials.await(ctx, p.read(ctx, p.current()))
}
