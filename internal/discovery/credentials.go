package discovery

import (
	"context"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/source/credential"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// credentials has what proxies ask for by SDS read, from the API server of the cluster that config is read from.
type credentials struct {
	*credential.Source
	s *server

	mu      sync.Mutex
	arrival chan struct{} // is closed when there is a newer snapshot
}

// newCredentials makes the part that reads Secrets of an API server.
func (s *server) newCredentials(client *kube.Client) *credentials {
	return &credentials{
		s: s, arrival: make(chan struct{}),
		Source: credential.New(credential.Options{
			Client: client, Reach: s.options.SecretsScope, Log: s.logs.Scope("secrets"), Failed: s.metrics.m.Clusters.SecretErrors.Inc,
		}),
	}
}

// keys vouches for a proxy that connects. A gateway's certificates are read before it is served, if that does not take long: else it
// would open its ports without them.
func (s *server) keys(p *mesh.Proxy, h xds.Hello) bool {
	account, vouched := s.options.vouch(p, h)
	if !vouched || s.credentials == nil {
		return vouched
	}
	if account != (mesh.Account{}) && account.Cluster == "" {
		account.Cluster = mesh.ClusterID(s.options.ClusterID)
	}
	p.Keys, p.Account = true, account
	ctx, cancel := credential.Patience(context.Background()) // of a stream that ends meanwhile nothing is left but this
	defer cancel()
	if now := s.current.Load(); p.Type == mesh.RouterProxy {
		s.credentials.await(ctx, s.credentials.Await(ctx, s.credentials.want(now, p, secret.Expected(now, p))))
	}
	return true
}

// want gives what is to be read for a proxy that asks for those names. What only proxies of its own cluster may have is not read for
// one of another.
func (c *credentials) want(s *snapshot.Snapshot, p *mesh.Proxy, names []string) credential.Want {
	if p.ClusterID != "" && p.ClusterID != mesh.ClusterID(c.s.options.ClusterID) {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			n, err := mesh.ParseSecretName(name)
			return err != nil || n.Store == mesh.KubernetesSecret
		})
		return credential.Want{Objects: secret.DemandOf(s, p, names).Objects}
	}
	d := secret.DemandOf(s, p, names)
	w := credential.Want{Objects: d.Objects, Private: d.Private}
	// A gateway whose account is refused is not served, and so asks for nothing; but it may be allowed again.
	if len(d.Private) > 0 || p.Type == mesh.RouterProxy {
		w.Account = p.Account
	}
	return w
}

// secretsAsked gives whom to tell which secrets streams ask for, nil for nobody.
func (s *server) secretsAsked() func(push.Subscription) {
	if s.credentials == nil {
		return nil
	}
	return s.credentials.subscribed
}

// subscribed is told which secrets a stream asks for.
func (c *credentials) subscribed(x push.Subscription) {
	if x.Ended {
		c.Set(x.Stream, credential.Want{})
		return
	}
	c.Set(x.Stream, c.want(c.s.current.Load(), x.Proxy, x.Names))
}

// await waits until the newest snapshot has all of the objects.
func (c *credentials) await(ctx context.Context, objects []config.Key) {
	for {
		c.mu.Lock()
		arrival := c.arrival
		c.mu.Unlock()
		missing := false
		now := c.s.current.Load()
		for _, k := range objects {
			missing = missing || now.Config(k) == nil
		}
		if !missing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-arrival:
		}
	}
}

// published is told that there is a newer snapshot.
func (c *credentials) published() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.arrival)
	c.arrival = make(chan struct{})
}
