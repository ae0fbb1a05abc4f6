package credential

import (
	"context"
	"sync"

	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Clusters follows what proxies of other clusters ask for, each in its own: a Source for each cluster, as one feed.
type Clusters struct {
	o    Options
	wake chan struct{} // holds one token when members differ

	mu      sync.Mutex
	members map[mesh.ClusterID]*member
	leaving map[mesh.ClusterID]*member // what they said is being taken back
	wants   map[string]clusterWant     // by stream, also of clusters that are not known
}

// clusterWant is what a stream asks for, of a proxy in a cluster.
type clusterWant struct {
	cluster mesh.ClusterID
	want    Want
}

// member is what is read of one cluster.
type member struct {
	*Source
	client *kube.Client       // the newest
	stop   context.CancelFunc // nil: it does not run yet
	gone   chan struct{}      // is closed when nothing of it is left
}

var _ source.Source = (*Clusters)(nil)

// NewClusters makes a feed that knows no cluster. The Options are those of each; their Client and Cluster do not count.
func NewClusters(o Options) *Clusters {
	return &Clusters{
		o: o, wake: make(chan struct{}, 1), members: map[mesh.ClusterID]*member{}, leaving: map[mesh.ClusterID]*member{},
		wants: map[string]clusterWant{},
	}
}

// Name tells it from other feeds.
func (*Clusters) Name() string { return "credentials of remote clusters" }

// Of gives what follows the objects of a cluster, nil if the cluster is not known.
func (c *Clusters) Of(id mesh.ClusterID) *Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[id]; m != nil {
		return m.Source
	}
	return nil
}

// Want replaces what a stream asks for, of a proxy in a cluster; the zero Want: nothing any more.
func (c *Clusters) Want(id mesh.ClusterID, stream string, w Want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.empty() {
		delete(c.wants, stream)
	} else {
		c.wants[stream] = clusterWant{id, w}
	}
	if m := c.members[id]; m != nil {
		m.Source.Set(stream, w)
	}
}

// Set has a cluster read by that client. What was read by another one stays until it is read again.
func (c *Clusters) Set(id mesh.ClusterID, client *kube.Client) {
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
				m.Source.Set(stream, w.want)
			}
		}
		c.rouse()
	}
	m.client = client
	m.Use(client)
}

// Remove forgets a cluster, and takes back what was said of it, if client is still what it is read by.
func (c *Clusters) Remove(id mesh.ClusterID, client *kube.Client) {
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

func (c *Clusters) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run follows what is asked for in all clusters until the context ends. It is in sync from the start: nothing is asked for yet.
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
		case <-c.wake:
			batch = nil
			c.start(ctx, news, &running)
		case <-ctx.Done():
			return nil
		}
	}
}

// start has members run that do not yet.
func (c *Clusters) start(ctx context.Context, news chan<- mesh.Batch, running *sync.WaitGroup) {
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
			c.follow(ctx, of, m.Source, news)
		})
	}
}

// follow hands on what is news of one cluster until its own context ends, and takes that back then, unless all end.
func (c *Clusters) follow(all, ctx context.Context, s *Source, news chan<- mesh.Batch) {
	own := make(chan mesh.Batch)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(own)
		_ = s.Run(ctx, own) // a source ends with its context
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
	case news <- s.takeBack():
	case <-all.Done():
	}
}

// takeBack gives the events after which nothing that was said holds any more. Run must have ended.
func (s *Source) takeBack() mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch mesh.Batch
	for k := range s.said.objects {
		batch = append(batch, mesh.Event{Op: mesh.Delete, Source: s.Name(), Config: &config.Config{Meta: config.Meta{Key: k}}})
	}
	for a := range s.said.rights {
		batch = append(batch, mesh.Event{Op: mesh.Delete, Source: s.Name(), SecretAccess: &mesh.SecretAccess{Account: a}})
	}
	for scope := range s.said.problems {
		batch = append(batch, mesh.Event{Source: s.Name(), Problems: &mesh.Problems{Scope: scope}})
	}
	s.said.objects, s.said.rights, s.said.problems = nil, nil, nil
	return batch
}
