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

// credentials reads the Secrets that proxies request by SDS, from the API server of the config
// cluster and from that of the proxy's own cluster.
type credentials struct {
	*credential.Source
	remote *credential.Clusters
	s      *server

	mu      sync.Mutex
	arrival chan struct{} // closed when a newer snapshot is published
}

// newCredentials returns the reader of Secrets, for the config cluster and for remote clusters. It
// sends no requests yet.
func (s *server) newCredentials(client *kube.Client) *credentials {
	o := credential.Options{
		Client: client, Reach: s.options.SecretsScope, Log: s.logs.Scope("secrets"), Failed: s.metrics.m.Clusters.SecretErrors.Inc,
	}
	return &credentials{s: s, arrival: make(chan struct{}), Source: credential.New(o), remote: credential.NewClusters(o)}
}

// followClusters adds each remote cluster as a source of Secrets while the cluster is known. It
// does nothing if NoCredentials is set.
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

// keys reports whether a proxy that connects may be sent private keys, and sets p.Keys and
// p.Account accordingly. For a gateway it also waits for the expected certificates, up to the
// timeout of package credential. Without them the gateway would open its ports without
// certificates. It logs a proxy whose authenticated identity has another namespace or cluster.
func (s *server) keys(p *mesh.Proxy, h xds.Hello) bool {
	account, vouched := s.options.vouch(p, h)
	if !vouched && h.Secure && len(h.Identities) > 0 {
		s.log.Info("no private keys for a proxy: its identity is of another namespace or cluster than it claims", "node", p.ID,
			"cluster", string(p.ClusterID), "vouched by", h.Cluster, "identities", h.Identities)
	}
	if !vouched || s.credentials == nil {
		account.Cluster = "" // No API server can be asked about the account.
		p.Account = account
		return vouched
	}
	p.Keys, p.Account = true, account
	ctx, cancel := credential.WithAwaitTimeout(context.Background()) // Also expires after the stream has ended; nothing else remains of it.
	defer cancel()
	if now := s.current.Load(); p.Type == mesh.RouterProxy {
		s.credentials.await(ctx, s.credentials.expect(ctx, now, p))
	}
	return true
}

// expect reads in advance the Secrets that a gateway will request, and returns the existing ones.
func (c *credentials) expect(ctx context.Context, s *snapshot.Snapshot, p *mesh.Proxy) []config.Key {
	ours, theirs := c.want(s, p, secret.Expected(s, p))
	var there []config.Key
	if remote := c.remote.SourceFor(p.ClusterID); remote != nil {
		there = remote.Await(ctx, theirs)
	}
	return append(there, c.Await(ctx, ours)...)
}

// want returns the objects to read for the names that a proxy requests: ours from the config
// cluster, and theirs from the proxy's own cluster if that is another one. The API server of the
// proxy's cluster decides which account may read what.
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

// account returns the account whose access must be checked, or the zero value if none must be. A
// gateway is always checked: while its account is denied it receives no configuration and requests
// nothing, but access may be granted again.
func (c *credentials) account(p *mesh.Proxy, d secret.Demand) mesh.Account {
	if len(d.Private) > 0 || p.Type == mesh.RouterProxy {
		return p.Account
	}
	return mesh.Account{}
}

// secretsAsked returns the callback for changes of secret subscriptions, or nil without an API
// server.
func (s *server) secretsAsked() func(push.Subscription) {
	if s.credentials == nil {
		return nil
	}
	return s.credentials.subscribed
}

// subscribed updates the Secrets that are read for a stream after its subscription changed or
// ended.
func (c *credentials) subscribed(x push.Subscription) {
	var ours, theirs credential.Want
	if !x.Ended {
		ours, theirs = c.want(c.s.current.Load(), x.Proxy, x.Names)
	}
	c.SetWant(x.Stream, ours)
	c.remote.SetWant(x.Proxy.ClusterID, x.Stream, theirs)
}

// await waits until the newest snapshot contains all of the objects, or until ctx ends.
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

// published wakes the callers of await after a newer snapshot was published.
func (c *credentials) published() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.arrival)
	c.arrival = make(chan struct{})
}
