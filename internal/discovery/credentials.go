package discovery

import (
	"context"
	"sync"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/mesh"
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
	if now := s.current.Load(); p.Type == mesh.RouterProxy && s.credentials.of(p) {
		w := want(secret.DemandOf(now, p, secret.Expected(now, p)), p)
		s.credentials.await(ctx, s.credentials.Await(ctx, w))
	}
	return true
}

// of says whether a proxy's Secrets are in the cluster that is read.
func (c *credentials) of(p *mesh.Proxy) bool {
	return p.ClusterID == "" || p.ClusterID == mesh.ClusterID(c.s.options.ClusterID)
}

func want(d secret.Demand, p *mesh.Proxy) credential.Want {
	return credential.Want{Account: p.Account, Objects: d.Objects, Private: d.Private}
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
	if !c.of(x.Proxy) {
		return
	}
	if len(x.Names) == 0 {
		c.Set(x.Stream, credential.Want{})
		return
	}
	d := secret.DemandOf(c.s.current.Load(), x.Proxy, x.Names)
	if len(d.Objects)+len(d.Private) == 0 {
		c.Set(x.Stream, credential.Want{})
		return
	}
	c.Set(x.Stream, want(d, x.Proxy))
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
