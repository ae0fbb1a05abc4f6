package remote

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure Clusters.
type Options struct {
	// Client is the client of the API server that has the Secrets, in Namespace.
	Client    *kube.Client
	Namespace string
	// Local is the config cluster, which a Secret cannot replace.
	Local mesh.ClusterID
	// Open returns the parts that read a cluster. They must not be running.
	Open func(id mesh.ClusterID, client *kube.Client) Parts
	// Timeout limits how long a cluster can delay the start (default 0, no limit;
	// PILOT_REMOTE_CLUSTER_TIMEOUT).
	Timeout time.Duration
	// AllowedInsecureFields lists the dangerous fields that a kubeconfig may have (default none;
	// PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS): exec, clientCertificate, clientKey,
	// tokenFile, certificateAuthority, or the name of an auth provider.
	AllowedInsecureFields []string
	Log                   *slog.Logger // if nil, nothing is logged
	Metrics               Metrics      // if nil, nothing is measured
}

// Metrics receives the states of the remote clusters.
type Metrics interface {
	// SetStates is called with the states of all remote clusters each time one of them changes.
	SetStates(states map[mesh.ClusterID]string)
	// TimedOut is called for a cluster that delayed the start for longer than Options.Timeout.
	TimedOut(id mesh.ClusterID)
}

// Clusters is the registry of all remote clusters.
type Clusters struct {
	o        Options
	secrets  *secretStore
	settings *settings

	// The following fields belong to the goroutine of Run. members are the clusters in use. next
	// are their replacements after a change of kubeconfig, until they are in sync.
	members, next map[mesh.ClusterID]*member
	failed        map[mesh.ClusterID]string        // the reason why the newest kubeconfig cannot be used
	problems      *emit.ProblemEmitter[config.Key] // by Secret
	synced        bool                             // Synced was sent
	running       sync.WaitGroup
	memberEvents  chan memberEvent

	mu       sync.Mutex
	statuses map[mesh.ClusterID]Status
	readers  map[mesh.ClusterID]any
	clients  map[mesh.ClusterID]*kube.Client
	changed  notify.Broadcast // notified when clients change
}

// sourceName is the name of the feed.
const sourceName = "remote clusters"

var _ registry.Registry = (*Clusters)(nil)

// New returns a registry without clusters. It sends no request before Run. Without Options.Log and
// Metrics it has none.
func New(o Options) *Clusters {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	return &Clusters{
		o: o, secrets: newSecretStore(), settings: new(settings), memberEvents: make(chan memberEvent),
		members: map[mesh.ClusterID]*member{}, next: map[mesh.ClusterID]*member{}, failed: map[mesh.ClusterID]string{},
		problems: emit.NewProblemEmitter(sourceName, func(secret config.Key) string {
			return "remote clusters in " + secret.String()
		}),
		statuses: map[mesh.ClusterID]Status{}, readers: map[mesh.ClusterID]any{},
		clients: map[mesh.ClusterID]*kube.Client{},
	}
}

// Name returns the name of the feed.
func (c *Clusters) Name() string { return sourceName }

// Observe copies the settings in a batch, on which the identities and networks of workloads depend,
// and makes all members convert them. It ignores other events. It may be called before and during
// Run.
func (c *Clusters) Observe(batch mesh.Batch) {
	for _, e := range batch {
		if e.Settings != nil {
			c.settings.update(e.Settings)
		}
	}
}

// Run reads all clusters until the context ends, and then returns nil. It sends Synced when every
// cluster that existed at the start is in sync, or after Options.Timeout, which is without limit if
// it is 0. Secrets that may not be read do not delay Synced.
func (c *Clusters) Run(ctx context.Context, out chan<- mesh.Batch) error {
	defer c.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reflector := cache.NewReflectorWithOptions(
		c.listerWatcher(),
		new(corev1.Secret),
		c.secrets,
		cache.ReflectorOptions{Name: sourceName},
	)
	c.running.Go(func() { reflector.RunWithContext(ctx) })
	var timeout <-chan time.Time
	if c.o.Timeout > 0 {
		timeout = time.After(c.o.Timeout)
	}
	for {
		var batch mesh.Batch
		select {
		case <-ctx.Done():
			return nil
		case <-timeout:
			batch = c.endWait()
		case <-c.secrets.wake.C():
			batch = c.reconcile(ctx)
		case u := <-c.memberEvents:
			batch = c.applyMemberEvent(u)
		}
		c.updateStatus()
		if batch = append(batch, c.syncedEvent()...); len(batch) == 0 {
			continue
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return nil
		}
	}
}

// reconcile starts, replaces and stops members according to the Secrets. It returns the deletions
// of removed clusters and the changed Problems. Until the Secrets have been read, it returns only
// Problems and changes no member. It takes c.mu.
func (c *Clusters) reconcile(ctx context.Context) mesh.Batch {
	list, problems, ok := c.configuredClusters()
	if !ok {
		return c.problems.Replace(nil, problems)
	}
	var batch mesh.Batch
	wanted := map[mesh.ClusterID]bool{}
	for _, e := range list {
		wanted[e.id] = true
		c.startReading(ctx, e)
		if reason := c.failed[e.id]; reason != "" {
			if c.members[e.id] != nil {
				reason += "; the one from before stays in use"
			}
			problems[e.secret] = append(problems[e.secret], config.Problem{
				Code: code.UnreadableSource,
				Key:  e.secret, Field: "data[" + string(e.id) + "]", Severity: config.Error, Reason: reason,
			})
		}
		c.mu.Lock()
		s := c.statuses[e.id]
		s.Cluster, s.Secret = e.id, e.secret
		c.statuses[e.id] = s
		c.mu.Unlock()
	}
	for id := range c.statuses {
		if !wanted[id] {
			batch = append(batch, c.removeCluster(id)...)
		}
	}
	return c.problems.Replace(batch, problems)
}

// endWait ends the wait for remote clusters at the timeout: it returns Synced, so that the control
// plane starts without the clusters that are not in sync. It logs and counts each of them, and its
// state is TimedOut until it is in sync. It returns nil if Synced was sent before.
func (c *Clusters) endWait() mesh.Batch {
	if c.synced {
		return nil
	}
	c.synced = true
	for id, m := range c.members {
		if !m.synced {
			m.late = true
			c.o.Metrics.TimedOut(id)
			c.o.Log.Error("remote cluster is not waited for any longer", "cluster", string(id), "after", c.o.Timeout)
		}
	}
	return mesh.Batch{{Op: mesh.Synced, Source: sourceName}}
}

// syncedEvent returns Synced once, when the Secrets are read or forbidden, and all members are in
// sync. Otherwise it returns nil.
func (c *Clusters) syncedEvent() mesh.Batch {
	if c.synced {
		return nil
	}
	if _, _, read := c.configuredClusters(); !read && !c.secrets.isForbidden() {
		return nil
	}
	for _, m := range c.members {
		if !m.synced {
			return nil
		}
	}
	c.synced = true
	return mesh.Batch{{Op: mesh.Synced, Source: sourceName}}
}

type noMetrics struct{}

// SetStates does nothing.
func (noMetrics) SetStates(map[mesh.ClusterID]string) {}

// TimedOut does nothing.
func (noMetrics) TimedOut(mesh.ClusterID) {}
