package discovery

import (
	"context"
	"sync"

	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// credentials has what proxies ask for by SDS read, from the API server of the cluster that config is read from, and from that of
// the proxies' own.
type credentials struct {
	*credential.Source
	remote *credential.Clusters
	s      *server

	mu      sync.Mutex
	arrival chan struct{} // is closed when there is a newer snapshot
}

// newCredentials makes the part that reads Secrets of an API server.
func (s *server) newCredentials(client *kube.Client) *credentials {
	o := credential.Options{
		Client: client, Reach: s.options.SecretsScope, Log: s.logs.Scope("secrets"), Failed: s.metrics.m.Clusters.SecretErrors.Inc,
	}
	return &credentials{s: s, arrival: make(chan struct{}), Source: credential.New(o), remote: credential.NewClusters(o)}
}

// followClusters has the Secrets of remote clusters read for as long as those are known.
func (s *server) followClusters(ctx context.Context) {
	if s.clusters == nil || s.credentials == nil || s.options.Remote.NoCredentials {
		return
	}
	s.clusters.Each(ctx, func(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
		s.credentials.remote.SetClient(id, client)
		<-ctx.Done()
		if s.clusters.Client(id) == nil {
			s.credentials.remote.RemoveCluster(id, client)
		}
	})
}

// keys vouches for a proxy that connects. A gateway's certificates are read before it is served, if that does not take long: else it
// would open its ports without them.
func (s *server) keys(p *mesh.Proxy, h xds.Hello) bool {
	account, vouched := s.options.vouch(p, h)
	if !vouched && h.Secure && len(h.Identities) > 0 {
		s.log.Info("no private keys for a proxy: its identity is of another namespace or cluster than it claims", "node", p.ID,
			"cluster", string(p.ClusterID), "vouched by", h.Cluster, "identities", h.Identities)
	}
	if !vouched || s.credentials == nil {
		account.Cluster = "" // there is no API server to ask about it
		p.Account = account
		return vouched
	}
	p.Keys, p.Account = true, account
	ctx, cancel := credential.WithAwaitTimeout(context.Background()) // of a stream that ends meanwhile nothing is left but this
	defer cancel()
	if now := s.current.Load(); p.Type == mesh.RouterProxy {
		s.credentials.await(ctx, s.credentials.expect(ctx, now, p))
	}
	return true
}

// expect reads ahead the Secrets that a gateway will ask for, and gives those that there are.
func (c *credentials) expect(ctx context.Context, s *snapshot.Snapshot, p *mesh.Proxy) []config.Key {
	ours, theirs := c.want(s, p, secret.Expected(s, p))
	var there []config.Key
	if remote := c.remote.SourceFor(p.ClusterID); remote != nil {
		there = remote.Await(ctx, theirs)
	}
	return append(there, c.Await(ctx, ours)...)
}

// want gives what is to be read for a proxy that asks for those names: of the cluster that config is read from, and of its own if
// that is another one. Who may have what is for the API server of the proxy's cluster to say.
func (c *credentials) want(s *snapshot.Snapshot, p *mesh.Proxy, names []string) (ours, theirs credential.Want) {
	d := secret.DemandOf(s, p, names)
	if p.ClusterID == "" || p.ClusterID == mesh.ClusterID(c.s.options.ClusterID) {
		ours = credential.Want{Objects: d.Objects, Private: d.Private, Account: c.account(p, d)}
		return ours, theirs
	}
	split := func(list []config.Key) (own, other []config.Key) {
		for _, k := range list {
			if k.Kind == api.RemoteSecret {
				own = append(own, k)
			} else {
				other = append(other, k)
			}
		}
		return own, other
	}
	theirs.Objects, ours.Objects = split(d.Objects)
	theirs.Private, ours.Fallback = split(d.Private)
	theirs.Account = c.account(p, d)
	return ours, theirs
}

// account gives whose right is to be known. A gateway whose account is refused is not served, and so asks for nothing; but it may
// be allowed again.
func (c *credentials) account(p *mesh.Proxy, d secret.Demand) mesh.Account {
	if len(d.Private) > 0 || p.Type == mesh.RouterProxy {
		return p.Account
	}
	return mesh.Account{}
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
	var ours, theirs credential.Want
	if !x.Ended {
		ours, theirs = c.want(c.s.current.Load(), x.Proxy, x.Names)
	}
	c.SetWant(x.Stream, ours)
	c.remote.SetWant(x.Proxy.ClusterID, x.Stream, theirs)
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
