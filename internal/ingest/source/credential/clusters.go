package credential

import (
	"context"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Clusters reads the credentials of remote clusters' proxies, each in the proxy's own cluster. It
// runs one Source per cluster and merges them into one feed.
type Clusters struct {
	o    Options
	wake notify.Wake // wakes Run when members changed

	mu      sync.Mutex
	members map[mesh.ClusterID]*member
	leaving map[mesh.ClusterID]*member // removed members whose objects are being deleted
	wants   map[string]clusterWant     // by stream, including clusters that are not known
}

// clusterWant is the Want of a stream, for a proxy in a cluster.
type clusterWant struct {
	cluster mesh.ClusterID
	want    Want
}

// member is the reader of one cluster.
type member struct {
	*Source
	client *kube.Client       // the newest client
	stop   context.CancelFunc // nil until it runs
	gone   chan struct{}      // closed when all its objects have been deleted
}

var _ source.Source = (*Clusters)(nil)

// NewClusters returns a feed without clusters. Each cluster's Source gets o, except for Client and
// Cluster.
func NewClusters(o Options) *Clusters {
	return &Clusters{
		o: o, wake: notify.NewWake(), members: map[mesh.ClusterID]*member{}, leaving: map[mesh.ClusterID]*member{},
		wants: map[string]clusterWant{},
	}
}

// Name returns the name of the feed.
func (*Clusters) Name() string { return "credentials of remote clusters" }

// SourceFor returns the Source that reads a remote cluster, or nil if the cluster is not known.
func (c *Clusters) SourceFor(id mesh.ClusterID) *Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		return m.Source
	}
	return nil
}

// SetWant replaces what a stream of a proxy in cluster id requests; the zero Want removes it. For
// an unknown cluster it takes effect when SetClient adds the cluster. It may be called by any
// goroutine.
func (c *Clusters) SetWant(id mesh.ClusterID, stream string, w Want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.empty() {
		delete(c.wants, stream)
	} else {
		c.wants[stream] = clusterWant{id, w}
	}
	if m := c.members[id]; m != nil {
		m.Source.SetWant(stream, w)
	}
}

// SetClient starts reading a cluster with a client, or replaces its client. Objects that the former
// client has read stay in use until they have been read again. It may be called by any goroutine.
func (c *Clusters) SetClient(id mesh.ClusterID, client *kube.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	if m == nil {
		o := c.o
		o.Client, o.Cluster = nil, id
		m = &member{Source: New(o), gone: make(chan struct{})}
		c.members[id] = m
		for stream, w := range c.wants {
			if w.cluster == id {
				m.Source.SetWant(stream, w.want)
			}
		}
		c.wake.Notify()
	}
	m.client = client
	m.SetClient(client)
}

// Follower returns a function that reads a cluster with a client until ctx ends. It then removes
// the cluster, unless current returns a client for it: then another call reads it with that one.
func (c *Clusters) Follower(
	current func(mesh.ClusterID) *kube.Client,
) func(context.Context, mesh.ClusterID, *kube.Client) {
	return func(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
		c.SetClient(id, client)
		<-ctx.Done()
		if current(id) == nil {
			c.RemoveCluster(id, client)
		}
	}
}

// RemoveCluster stops reading a cluster and deletes its objects, without waiting for that. It does
// nothing unless client is the cluster's current client. Its objects are deleted by Run. It takes
// c.mu.
func (c *Clusters) RemoveCluster(id mesh.ClusterID, client *kube.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil && m.client == client {
		delete(c.members, id)
		if m.stop != nil {
			m.stop()
			c.leaving[id] = m
		}
	}
}

// Run reads all clusters until the context ends, and then returns nil. It sends their events, and
// the deletion of everything of a removed cluster. It sends Synced at once, because no object is
// requested at the start.
func (c *Clusters) Run(ctx context.Context, out chan<- mesh.Batch) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan mesh.Batch)
	for batch := (mesh.Batch{{Op: mesh.Synced, Source: c.Name()}}); ; {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case batch = <-news:
		case <-c.wake.C():
			batch = nil
			c.startMembers(ctx, news, &running)
		case <-ctx.Done():
			return nil
		}
	}
}

// startMembers runs the members that do not run yet. A member of a cluster that is still being
// removed starts after that has ended. It takes c.mu.
func (c *Clusters) startMembers(ctx context.Context, news chan<- mesh.Batch, running *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		if m.stop != nil {
			continue
		}
		of, stop := context.WithCancel(ctx)
		m.stop = stop
		before := c.leaving[id]
		delete(c.leaving, id)
		running.Go(func() {
			defer close(m.gone)
			defer stop()
			if before != nil {
				<-before.gone
			}
			c.forwardEvents(ctx, of, m.Source, news)
		})
	}
}

// forwardEvents forwards the events of one cluster, except Synced, to news until ctx ends. Then it
// sends the deletion of the cluster's objects, unless all ends too. The source is awaited before
// that.
func (c *Clusters) forwardEvents(all, ctx context.Context, s *Source, news chan<- mesh.Batch) {
	own := make(chan mesh.Batch)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(own)
		_ = s.Run(ctx, own) // a source ends only with its context
	})
	defer reading.Wait()
	for batch := range own {
		if batch[0].Op == mesh.Synced {
			batch = batch[1:]
		}
		select {
		case news <- batch:
		case <-all.Done():
			return
		}
	}
	select {
	case news <- s.deleteEvents():
	case <-all.Done():
	}
}

// deleteEvents returns the events that delete everything that was sent, and forgets what was sent.
// Run must have returned, and must not be called again. It takes s.mu.
func (s *Source) deleteEvents() mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch mesh.Batch
	for k := range s.sent.objects {
		batch = append(
			batch,
			mesh.Event{Op: mesh.Delete, Source: s.Name(), Config: &config.Config{Meta: config.Meta{Key: k}}},
		)
	}
	for a := range s.sent.permissions {
		batch = append(
			batch,
			mesh.Event{Op: mesh.Delete, Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a}},
		)
	}
	s.sent.objects, s.sent.permissions = nil, nil
	return s.sent.problems.Replace(batch, nil)
}
