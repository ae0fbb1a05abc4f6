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

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options say where the Secrets are, and how a cluster is read.
type Options struct {
	// Client is of the API server that has the Secrets, in Namespace.
	Client    *kube.Client
	Namespace string
	// Local is the config cluster, which no Secret can replace.
	Local mesh.ClusterID
	// Open makes the parts with which a cluster is read. They must not have been run.
	Open func(id mesh.ClusterID, client *kube.Client) Parts
	// Timeout is how long clusters may hold up the start; 0: for ever. PILOT_REMOTE_CLUSTER_TIMEOUT.
	Timeout time.Duration
	// Insecure are the dangerous things that a kubeconfig may have all the same: exec, clientCertificate, clientKey, tokenFile,
	// certificateAuthority, or the name of an auth provider. PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS.
	Insecure []string
	Log      *slog.Logger // none if nil
	Metrics  Metrics      // none if nil
}

// Metrics is told how many clusters there are, and how it stands with them.
type Metrics interface {
	// Remote is told of all remote clusters each time one of them changes.
	Remote(states map[mesh.ClusterID]string)
	// TimedOut is told of a cluster that held up the start for too long.
	TimedOut(id mesh.ClusterID)
}

// Clusters is the registry of all remote clusters.
type Clusters struct {
	o        Options
	shelf    *shelf
	settings *settings

	// What follows is for the goroutine of Run. members are those that count, next those that will as soon as they are in sync.
	members, next map[mesh.ClusterID]*member
	failed        map[mesh.ClusterID]string // by what is wrong with the newest kubeconfig
	problems      map[config.Key][]config.Problem
	synced        bool // the feed is
	running       sync.WaitGroup
	utterances    chan utterance

	mu       sync.Mutex
	statuses map[mesh.ClusterID]Status
	readers  map[mesh.ClusterID]any
	clients  map[mesh.ClusterID]*kube.Client
	changed  chan struct{} // is closed when clients differ
}

// sourceName is the feed's name.
const sourceName = "remote clusters"

var _ registry.Registry = (*Clusters)(nil)

// New makes a registry that knows no clusters. It asks nothing before Run.
func New(o Options) *Clusters {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	return &Clusters{
		o: o, shelf: newShelf(), settings: newSettings(), utterances: make(chan utterance),
		members: map[mesh.ClusterID]*member{}, next: map[mesh.ClusterID]*member{}, failed: map[mesh.ClusterID]string{},
		problems: map[config.Key][]config.Problem{},
		statuses: map[mesh.ClusterID]Status{}, readers: map[mesh.ClusterID]any{}, clients: map[mesh.ClusterID]*kube.Client{},
		changed: make(chan struct{}),
	}
}

// Name tells it from other feeds.
func (c *Clusters) Name() string { return sourceName }

// Observe takes the settings out of a batch: identities and networks of workloads depend on them. It may be called before and
// while Run runs.
func (c *Clusters) Observe(batch mesh.Batch) {
	for _, e := range batch {
		if e.Settings != nil {
			c.settings.set(e.Settings)
		}
	}
}

// Run reads all clusters until the context ends, and returns nil then. Synced is sent when every cluster that there was at the start
// is in sync, or Options.Timeout has passed.
func (c *Clusters) Run(ctx context.Context, out chan<- mesh.Batch) error {
	defer c.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reflector := cache.NewReflectorWithOptions(c.listerWatcher(), new(corev1.Secret), c.shelf, cache.ReflectorOptions{Name: sourceName})
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
			batch = c.giveUp()
		case <-c.shelf.wake:
			batch = c.reconcile(ctx)
		case u := <-c.utterances:
			batch = c.hear(u)
		}
		c.report()
		if batch = append(batch, c.settle()...); len(batch) == 0 {
			continue
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return nil
		}
	}
}

// reconcile starts, replaces and ends members as the Secrets now say.
func (c *Clusters) reconcile(ctx context.Context) mesh.Batch {
	list, problems, ok := c.wanted()
	if !ok {
		return c.say(problems)
	}
	var batch mesh.Batch
	wanted := map[mesh.ClusterID]bool{}
	for _, e := range list {
		wanted[e.id] = true
		c.want(ctx, e)
		if reason := c.failed[e.id]; reason != "" {
			if c.members[e.id] != nil {
				reason += "; the one from before stays in use"
			}
			problems[e.secret] = append(problems[e.secret], config.Problem{
				Key: e.secret, Field: "data[" + string(e.id) + "]", Severity: config.Error, Reason: reason,
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
			batch = append(batch, c.remove(id)...)
		}
	}
	return append(batch, c.say(problems)...)
}

// want has a cluster read as an entry says, if it is not already.
func (c *Clusters) want(ctx context.Context, e entry) {
	sum := sha256.Sum256(e.kubeconfig)
	for _, m := range []*member{c.next[e.id], c.members[e.id]} {
		if m == nil {
			continue
		}
		if m.sum == sum {
			delete(c.failed, e.id)
			if n := c.next[e.id]; n != nil && n != m { // back to what it was before the newest one came up
				c.end(n)
				delete(c.next, e.id)
			}
			return
		}
	}
	if n := c.next[e.id]; n != nil {
		c.end(n)
		delete(c.next, e.id)
	}
	client, err := connect(e.kubeconfig, c.o.Insecure)
	if err != nil {
		c.failed[e.id] = err.Error()
		c.o.Log.Error("remote cluster", "cluster", string(e.id), "secret", e.secret.Namespace+"/"+e.secret.Name, "err", err)
		return
	}
	delete(c.failed, e.id)
	m := c.start(ctx, e.id, client)
	m.sum = sum
	if c.members[e.id] == nil {
		c.members[e.id] = m
	} else {
		c.next[e.id] = m
	}
	c.o.Log.Info("remote cluster is read", "cluster", string(e.id), "secret", e.secret.Namespace+"/"+e.secret.Name, "again", c.next[e.id] == m)
}

func (c *Clusters) start(ctx context.Context, id mesh.ClusterID, client *kube.Client) *member {
	ctx, stop := context.WithCancel(ctx)
	m := &member{id: id, client: client, parts: c.o.Open(id, client), stop: stop, said: newLedger(), began: time.Now()}
	c.running.Go(func() {
		m.run(ctx, c.settings, c.utterances)
		client.HTTP.CloseIdleConnections()
	})
	return m
}

// end stops a member. What it may be saying at the moment is not heard.
func (c *Clusters) end(m *member) { m.stop() }

// remove ends a cluster, and gives the events after which nothing of it is left.
func (c *Clusters) remove(id mesh.ClusterID) mesh.Batch {
	if n := c.next[id]; n != nil {
		c.end(n)
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
	c.end(m)
	delete(c.members, id)
	c.o.Log.Info("remote cluster is not read any more", "cluster", string(id))
	return m.said.takeBack(newLedger())
}

// hear takes in what a member says.
func (c *Clusters) hear(u utterance) mesh.Batch {
	m := u.from
	switch {
	case c.members[m.id] == m:
		m.synced = m.synced || u.synced
		return m.said.take(u.batch)
	case c.next[m.id] != m:
		return nil // it was ended
	}
	m.said.take(u.batch)
	if !u.synced {
		return nil
	}
	m.synced = true
	old := c.members[m.id]
	c.end(old)
	c.members[m.id] = m
	delete(c.next, m.id)
	c.o.Log.Info("remote cluster is read by its new kubeconfig", "cluster", string(m.id))
	return old.said.become(m.said)
}

// giveUp has the start wait no longer.
func (c *Clusters) giveUp() mesh.Batch {
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

// settle gives Synced when the feed is.
func (c *Clusters) settle() mesh.Batch {
	if c.synced {
		return nil
	}
	if _, _, read := c.wanted(); !read && !c.shelf.refused() {
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

// say gives what came to be wrong with Secrets, or was mended.
func (c *Clusters) say(problems map[config.Key][]config.Problem) mesh.Batch {
	var batch mesh.Batch
	tell := func(k config.Key, list []config.Problem) {
		batch = append(batch, mesh.Event{Source: sourceName, Problems: &mesh.Problems{Scope: "remote clusters in " + k.String(), List: list}})
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

// report brings what others are shown up to date.
func (c *Clusters) report() {
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
			s.Services, s.Workloads, s.Shards, s.began = m.said.counts[services], m.said.counts[workloads], m.said.counts[shards], m.began
		}
		c.statuses[id], states[id] = s, s.State
	}
	if !maps.Equal(before, c.clients) {
		close(c.changed)
		c.changed = make(chan struct{})
	}
	c.mu.Unlock()
	c.o.Metrics.Remote(states)
}

func (c *Clusters) stateOf(m *member) string {
	switch {
	case m == nil:
		return Failed
	case m.synced:
		return Synced
	case m.late || c.late(m.began):
		return TimedOut
	default:
		return Syncing
	}
}

// late says that a cluster is in sync later than was to be expected.
func (c *Clusters) late(began time.Time) bool {
	return c.o.Timeout > 0 && time.Since(began) >= c.o.Timeout
}

type unmeasured struct{}

func (unmeasured) Remote(map[mesh.ClusterID]string) {}
func (unmeasured) TimedOut(mesh.ClusterID)          {}
