package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/base/notify"
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
	failed        map[mesh.ClusterID]string // the reason why the newest kubeconfig cannot be used
	problems      map[config.Key][]config.Problem
	synced        bool // Synced was sent
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
		problems: map[config.Key][]config.Problem{},
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
// Problems and changes no member.
func (c *Clusters) reconcile(ctx context.Context) mesh.Batch {
	list, problems, ok := c.configuredClusters()
	if !ok {
		return c.setProblems(problems)
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
	return append(batch, c.setProblems(problems)...)
}

// startReading starts reading a cluster with the kubeconfig of an entry, unless that is already the
// case. A cluster that is being read is replaced only when the new member is in sync. An invalid
// kubeconfig is logged and recorded in c.failed, and the present member stays.
func (c *Clusters) startReading(ctx context.Context, e entry) {
	sum := sha256.Sum256(e.kubeconfig)
	for _, m := range []*member{c.next[e.id], c.members[e.id]} {
		if m == nil {
			continue
		}
		if m.sum == sum {
			delete(c.failed, e.id)
			// the kubeconfig was changed back before the replacement was in sync
			if n := c.next[e.id]; n != nil && n != m {
				c.stopMember(n)
				delete(c.next, e.id)
			}
			return
		}
	}
	if n := c.next[e.id]; n != nil {
		c.stopMember(n)
		delete(c.next, e.id)
	}
	client, err := newClient(e.kubeconfig, c.o.AllowedInsecureFields)
	if err != nil {
		c.failed[e.id] = err.Error()
		c.o.Log.Error(
			"remote cluster",
			"cluster",
			string(e.id),
			"secret",
			e.secret.Namespace+"/"+e.secret.Name,
			"err",
			err,
		)
		return
	}
	delete(c.failed, e.id)
	m := c.startMember(ctx, e.id, client)
	m.sum = sum
	if c.members[e.id] == nil {
		c.members[e.id] = m
	} else {
		c.next[e.id] = m
	}
	c.o.Log.Info(
		"remote cluster is read",
		"cluster",
		string(e.id),
		"secret",
		e.secret.Namespace+"/"+e.secret.Name,
		"again",
		c.next[e.id] == m,
	)
}

// startMember returns a new member that reads a cluster with client, in goroutines that end with
// the member or ctx.
func (c *Clusters) startMember(ctx context.Context, id mesh.ClusterID, client *kube.Client) *member {
	ctx, stop := context.WithCancel(ctx)
	m := &member{
		id:     id,
		client: client,
		parts:  c.o.Open(id, client),
		stop:   stop,
		state:  newClusterState(),
		began:  time.Now(),
	}
	c.running.Go(func() {
		m.run(ctx, c.settings, c.memberEvents)
		client.HTTP.CloseIdleConnections()
	})
	return m
}

// stopMember stops a member without waiting. Events that it sends after that are ignored.
func (c *Clusters) stopMember(m *member) { m.stop() }

// removeCluster stops reading a cluster, logs that, and returns the events that delete all its
// data. It returns nil if the cluster was not read.
func (c *Clusters) removeCluster(id mesh.ClusterID) mesh.Batch {
	if n := c.next[id]; n != nil {
		c.stopMember(n)
		delete(c.next, id)
	}
	delete(c.failed, id)
	c.mu.Lock()
	delete(c.statuses, id)
	c.mu.Unlock()
	m := c.members[id]
	if m == nil {
		return nil
	}
	c.stopMember(m)
	delete(c.members, id)
	c.o.Log.Info("remote cluster is no longer read", "cluster", string(id))
	return m.state.deleteMissing(newClusterState())
}

// applyMemberEvent records the events of a member and returns the events to forward. These are none
// for a stopped member or a replacement that is not in sync. When a replacement is in sync, they
// are its difference to the replaced member, which is stopped.
func (c *Clusters) applyMemberEvent(u memberEvent) mesh.Batch {
	m := u.from
	switch {
	case c.members[m.id] == m:
		m.synced = m.synced || u.synced
		return m.state.record(u.batch)
	case c.next[m.id] != m:
		return nil // it was stopped
	}
	m.state.record(u.batch)
	if !u.synced {
		return nil
	}
	m.synced = true
	old := c.members[m.id]
	c.stopMember(old)
	c.members[m.id] = m
	delete(c.next, m.id)
	c.o.Log.Info("remote cluster is read by its new kubeconfig", "cluster", string(m.id))
	return old.state.diff(m.state)
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

// setProblems replaces all Problems of Secrets, by Secret, and returns the events for what changed.
func (c *Clusters) setProblems(problems map[config.Key][]config.Problem) mesh.Batch {
	var batch mesh.Batch
	tell := func(k config.Key, list []config.Problem) {
		batch = append(
			batch,
			mesh.Event{
				Source:   sourceName,
				Problems: &mesh.Problems{Scope: "remote clusters in " + k.String(), List: list},
			},
		)
	}
	for k := range c.problems {
		if len(problems[k]) == 0 {
			tell(k, nil)
		}
	}
	for k, list := range problems {
		if !slices.Equal(list, c.problems[k]) {
			tell(k, list)
		}
	}
	c.problems = problems
	return batch
}

// updateStatus updates what other goroutines read: statuses, readers and clients. It notifies Each
// if the clients differ, and sets the metrics.
func (c *Clusters) updateStatus() {
	states := map[mesh.ClusterID]string{}
	c.mu.Lock()
	before := maps.Clone(c.clients)
	clear(c.readers)
	clear(c.clients)
	for id, s := range c.statuses {
		m := c.members[id]
		s.State, s.Waiting = c.stateOf(m), c.failed[id]
		if m != nil {
			c.readers[id], c.clients[id] = m.parts.Source, cmp.Or(c.next[id], m).client
			s.Services = m.state.counts[services]
			s.Workloads = m.state.counts[workloads]
			s.Shards = m.state.counts[shards]
			s.began = m.began
		}
		c.statuses[id], states[id] = s, s.State
	}
	if !maps.Equal(before, c.clients) {
		c.changed.Notify()
	}
	c.mu.Unlock()
	c.o.Metrics.SetStates(states)
}

// stateOf returns the state of a cluster with this member: Failed without a member, or Synced. A
// member that is not in sync is TimedOut after Options.Timeout or endWait, and Syncing before.
func (c *Clusters) stateOf(m *member) string {
	switch {
	case m == nil:
		return Failed
	case m.synced:
		return Synced
	case m.late || c.isLate(m.began):
		return TimedOut
	default:
		return Syncing
	}
}

// isLate reports whether a cluster whose reading began at this time has exceeded Options.Timeout.
// It returns false without a timeout.
func (c *Clusters) isLate(began time.Time) bool {
	return c.o.Timeout > 0 && time.Since(began) >= c.o.Timeout
}

type noMetrics struct{}

// SetStates does nothing.
func (noMetrics) SetStates(map[mesh.ClusterID]string) {}

// TimedOut does nothing.
func (noMetrics) TimedOut(mesh.ClusterID) {}
