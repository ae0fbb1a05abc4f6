package remote

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Parts read one cluster: the source of its objects, and the converters in their order.
type Parts struct {
	Source     source.Source
	Converters []registry.Converter
}

// member is a cluster as read with one kubeconfig.
type member struct {
	id     mesh.ClusterID
	sum    [sha256.Size]byte // of the kubeconfig
	client *kube.Client
	parts  Parts
	stop   context.CancelFunc
	began  time.Time

	// state belongs to the goroutine of Clusters.Run.
	state        *clusterState
	synced, late bool // late: the start does not wait for it anymore
}

// memberEvent is a converted batch of a member.
type memberEvent struct {
	from   *member
	batch  mesh.Batch
	synced bool
}

// settings holds the current mesh settings for the members' converters.
type settings struct {
	mu      sync.Mutex
	now     mesh.Settings
	changed notify.Broadcast // notified when now changes
}

// update merges the settings of an event and signals changed. Fields that next does not set stay.
func (s *settings) update(next *mesh.Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.Mesh != nil {
		s.now.Mesh = next.Mesh
	}
	if next.Networks != nil {
		s.now.Networks = next.Networks
	}
	s.changed.Notify()
}

// current returns the settings as a batch of one event, and a channel that is closed when they
// change.
func (s *settings) current() (mesh.Batch, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	return mesh.Batch{{Source: sourceName, Settings: &now}}, s.changed.Changed()
}

// run reads and converts the cluster until the context ends, and sends what was converted to out.
// After a change of all, the settings of the mesh, these are converted too. It returns when its
// source has ended.
func (m *member) run(ctx context.Context, all *settings, out chan<- memberEvent) {
	raw := make(chan mesh.Batch)
	var reading sync.WaitGroup
	reading.Go(func() { _ = m.parts.Source.Run(ctx, raw) }) // a source ends only with its context
	defer reading.Wait()
	batch, changed := all.current()
	for {
		u := m.convert(batch)
		if len(u.batch) > 0 || u.synced {
			select {
			case out <- u:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			batch, changed = all.current()
		case batch = <-raw:
		}
	}
}

// convert returns the output of all converters for a batch. Settings are dropped from it, and
// Synced becomes u.synced. Problems without an Origin get the name of the cluster as theirs
// (withOrigin).
func (m *member) convert(batch mesh.Batch) memberEvent {
	for _, c := range m.parts.Converters {
		batch = c.Convert(batch)
	}
	u := memberEvent{from: m}
	for _, e := range batch {
		switch {
		case e.Op == mesh.Synced:
			u.synced = true
		case e.Settings != nil:
		default:
			u.batch = append(u.batch, m.withOrigin(e))
		}
	}
	return u
}

// originPrefix is the prefix of the Origin of Problems of remote clusters' objects.
const originPrefix = "cluster "

// IsRemote reports whether a Problem is about an object of a remote cluster. Its Key may equal
// that of an object of the config cluster.
func IsRemote(p config.Problem) bool { return strings.HasPrefix(p.Origin, originPrefix) }

// withOrigin returns e with an Origin that names the cluster in each Problem without one, because
// their objects are not in the config cluster. Other events are returned unchanged.
func (m *member) withOrigin(e mesh.Event) mesh.Event {
	if e.Problems == nil {
		return e
	}
	told := *e.Problems
	told.List = nil
	for _, p := range e.Problems.List {
		if p.Origin == "" {
			p.Origin = originPrefix + string(m.id)
		}
		told.List = append(told.List, p)
	}
	e.Problems = &told
	return e
}
