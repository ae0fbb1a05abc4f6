package remote

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Parts are what one cluster is read with: where its objects come from, and what makes services of them, in order.
type Parts struct {
	Source     source.Source
	Converters []registry.Converter
}

// member is one cluster as one kubeconfig leads to it.
type member struct {
	id     mesh.ClusterID
	sum    [sha256.Size]byte // of the kubeconfig
	client *kube.Client
	parts  Parts
	stop   context.CancelFunc
	began  time.Time

	// said is for the goroutine of Clusters.Run.
	said         *ledger
	synced, late bool // late: it is not waited for any more
}

// utterance is what a member says, converted.
type utterance struct {
	from   *member
	batch  mesh.Batch
	synced bool
}

// settings is the mesh's, as members' converters have to be told them.
type settings struct {
	mu      sync.Mutex
	now     mesh.Settings
	changed chan struct{} // is closed when now differs
}

func newSettings() *settings { return &settings{changed: make(chan struct{})} }

// set takes up what an event says.
func (s *settings) set(next *mesh.Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.Mesh != nil {
		s.now.Mesh = next.Mesh
	}
	if next.Networks != nil {
		s.now.Networks = next.Networks
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// get gives the settings as a batch, and a channel that is closed when there are others.
func (s *settings) get() (mesh.Batch, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	return mesh.Batch{{Source: sourceName, Settings: &now}}, s.changed
}

// run reads and converts until the context ends.
func (m *member) run(ctx context.Context, all *settings, out chan<- utterance) {
	raw := make(chan mesh.Batch)
	var reading sync.WaitGroup
	reading.Go(func() { _ = m.parts.Source.Run(ctx, raw) }) // a source ends with its context
	defer reading.Wait()
	batch, changed := all.get()
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
			batch, changed = all.get()
		case batch = <-raw:
		}
	}
}

func (m *member) convert(batch mesh.Batch) utterance {
	for _, c := range m.parts.Converters {
		batch = c.Convert(batch)
	}
	u := utterance{from: m}
	for _, e := range batch {
		switch {
		case e.Op == mesh.Synced:
			u.synced = true
		case e.Settings != nil:
		default:
			u.batch = append(u.batch, m.origin(e))
		}
	}
	return u
}

// originPrefix begins the Origin of Problems of remote clusters' objects.
const originPrefix = "cluster "

// Elsewhere says whether a Problem is one of an object of a remote cluster. Its Key may be that of an object of the config cluster too.
func Elsewhere(p config.Problem) bool { return strings.HasPrefix(p.Origin, originPrefix) }

// origin has Problems say which cluster they are of: their objects are not those of the config cluster.
func (m *member) origin(e mesh.Event) mesh.Event {
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
