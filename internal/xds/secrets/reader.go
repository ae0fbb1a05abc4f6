package secrets

import (
	"context"
	"log/slog"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// Options are the settings and dependencies of a Reader.
type Options struct {
	// Cluster is the control plane's own cluster. Aliases are other names that API servers'
	// clusters may be known by.
	Cluster mesh.ClusterID
	Aliases map[mesh.ClusterID]mesh.ClusterID
	// PlainText selects the proxies that are sent private keys without TLS.
	PlainText feed.PlainText
	// Config reads the Secrets of the config cluster, Remote the Secrets of the proxies' own
	// clusters. Both are nil without an API server.
	Config *credential.Source
	Remote *credential.Clusters
	// Snapshot returns the newest snapshot.
	Snapshot func() *snapshot.Snapshot
	Log      *slog.Logger
}

// Reader requests the Secrets that proxies need. It is safe for concurrent use.
type Reader struct {
	o         Options
	published notify.Broadcast
}

// New returns a Reader. It reads no Secrets before AuthorizeKeys or UpdateSubscription.
func New(o Options) *Reader { return &Reader{o: o} }

// AuthorizeKeys reports whether a connecting proxy may be sent private keys (verifiedAccount). It
// sets p.Account, zero if not, and also p.Keys if an API server can be asked. Without one
// (Options.Config is nil), p.Account has no Cluster. For a gateway with p.Keys it then waits for
// the expected certificates, up to the timeout of package credential. Without them the gateway
// would open its ports without certificates. It logs a proxy whose authenticated identity has
// another namespace or cluster.
func (r *Reader) AuthorizeKeys(p *mesh.Proxy, h server.Hello) bool {
	account, verified := r.verifiedAccount(p, h)
	if !verified && h.Secure && len(h.Identities) > 0 {
		r.o.Log.Info("no private keys for a proxy: its identity is of another namespace or cluster than it claims",
			"node", p.ID,
			"cluster", string(p.ClusterID), "vouched by", h.Cluster, "identities", h.Identities)
	}
	if !verified || r.o.Config == nil {
		account.Cluster = "" // No API server can be asked about the account.
		p.Account = account
		return verified
	}
	p.Keys, p.Account = true, account
	// The timeout also ends the wait if the stream has ended; nothing else remains of it.
	ctx, cancel := credential.WithAwaitTimeout(context.Background())
	defer cancel()
	if p.Type == mesh.RouterProxy {
		r.AwaitSnapshot(ctx, r.readExpected(ctx, p))
	}
	return true
}

// readExpected reads the Secrets that a gateway will request, from its cluster and the config
// cluster, until ctx ends. It returns the keys of the existing ones.
func (r *Reader) readExpected(ctx context.Context, p *mesh.Proxy) []config.Key {
	s := r.o.Snapshot()
	ours, theirs := r.wants(s, p, secret.Expected(s, p))
	var existing []config.Key
	if remote := r.o.Remote.SourceFor(p.ClusterID); remote != nil {
		existing = remote.Await(ctx, theirs)
	}
	return append(existing, r.o.Config.Await(ctx, ours)...)
}

// wants returns the objects to read for the names of Secrets that a proxy requests: ours from the
// config cluster, and theirs from the proxy's own cluster. theirs is empty if both are the same.
// Otherwise theirs has the objects of kind RemoteSecret and the account to check; ours has the
// other objects, private ones as Fallback. The API server of the proxy's cluster decides which
// account may read what.
func (r *Reader) wants(s *snapshot.Snapshot, p *mesh.Proxy, names []string) (ours, theirs credential.Want) {
	d := secret.DemandOf(s, p, names)
	if p.ClusterID == "" || p.ClusterID == r.o.Cluster {
		ours = credential.Want{Objects: d.Objects, Private: d.Private, Account: accountToCheck(p, d)}
		return ours, theirs
	}
	split := func(list []config.Key) (remote, other []config.Key) {
		for _, k := range list {
			if k.Kind == api.RemoteSecret {
				remote = append(remote, k)
			} else {
				other = append(other, k)
			}
		}
		return remote, other
	}
	theirs.Objects, ours.Objects = split(d.Objects)
	theirs.Private, ours.Fallback = split(d.Private)
	theirs.Account = accountToCheck(p, d)
	return ours, theirs
}

// accountToCheck returns the account whose access must be checked, or the zero value if none must
// be. A gateway is always checked: while its account is denied it receives no configuration and
// requests nothing, but access may be granted again.
func accountToCheck(p *mesh.Proxy, d secret.Demand) mesh.Account {
	if len(d.Private) > 0 || p.Type == mesh.RouterProxy {
		return p.Account
	}
	return mesh.Account{}
}

// UpdateSubscription replaces the Secrets that are read for a stream: by the Secrets that its new
// subscription needs, or by none if it ended. Options.Config must not be nil.
func (r *Reader) UpdateSubscription(x push.Subscription) {
	var ours, theirs credential.Want
	if !x.Ended {
		ours, theirs = r.wants(r.o.Snapshot(), x.Proxy, x.Names)
	}
	r.o.Config.SetWant(x.Stream, ours)
	r.o.Remote.SetWant(x.Proxy.ClusterID, x.Stream, theirs)
}

// AwaitSnapshot waits until the newest snapshot contains all of the objects at once, or until ctx
// ends; it does not report which. Without objects, or if they are there, it returns at once.
func (r *Reader) AwaitSnapshot(ctx context.Context, objects []config.Key) {
	for {
		published := r.published.Changed()
		missing := false
		s := r.o.Snapshot()
		for _, k := range objects {
			missing = missing || s.Config(k) == nil
		}
		if !missing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-published:
		}
	}
}

// AwaitPullSecrets blocks until the Secrets that the existing plugins name are in a snapshot, or
// are known to be unavailable, up to the timeout of package credential or until ctx ends. Without
// it, proxies that reconnect to a restarted control plane would be configured as if there were
// none. It returns at once if p is nil.
func (r *Reader) AwaitPullSecrets(ctx context.Context, p *credential.PullSecrets) {
	if p == nil {
		return
	}
	ctx, cancel := credential.WithAwaitTimeout(ctx)
	defer cancel()
	r.AwaitSnapshot(ctx, p.AwaitNamed(ctx))
}

// NotifyPublished wakes the callers of AwaitSnapshot. It must be called after each new snapshot.
func (r *Reader) NotifyPublished() { r.published.Notify() }
