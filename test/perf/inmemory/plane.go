package inmemory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

const cluster = mesh.ClusterID("Kubernetes")

// Plane is a control plane without ports.
type Plane struct {
	Builder *snapshot.Builder
	Table   *translate.Table
	Pusher  *push.Pusher

	converters []registry.Converter
	clients    []*client
	library    library

	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup

	mu       sync.Mutex
	expected map[string]*expectation
	encoded  map[string]int
	faults   []error
}

// New makes a control plane of a mesh. Close ends it.
func New(m *workload.Mesh) (*Plane, error) {
	p := &Plane{
		Builder: snapshot.NewBuilder(
			snapshot.Options{Cluster: cluster},
		),
		Table: translate.NewTable(translate.Options{}),
		converters: []registry.Converter{
			serviceentry.New(
				serviceentry.Options{Cluster: cluster, SelectPods: true},
			),
			kube.New(kube.Options{
				Cluster: cluster, EndpointsFromPods: true,
				SelectWorkloadEntries: true, DiscoverGateways: true,
			}),
		},
		expected: map[string]*expectation{},
		encoded:  map[string]int{},
	}
	batch := make(mesh.Batch, 0, len(m.Objects()))
	for _, o := range m.Objects() {
		e, err := Event(workload.Edit{Object: o})
		if err != nil {
			return nil, err
		}
		batch = append(batch, e)
	}
	p.Pusher = push.New(push.Options{Generators: p.Table.Generators})
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(func() { p.Pusher.Run(p.ctx) })
	s, _ := p.applyBatch(batch)
	p.Pusher.Publish(s, snapshot.Delta{All: true})
	// Any object waits for the snapshot. Otherwise a busy machine may process it during a benchmark,
	// which would count its allocations.
	p.Pusher.Reports().Distribution(map[config.Key]struct{}{{}: {}})
	return p, nil
}

// Event is the event that a source would send for an edit.
func Event(e workload.Edit) (mesh.Event, error) {
	o := e.Object
	info, _, ok := api.Lookup(o.Group, o.Version, o.Kind)
	if !ok {
		return mesh.Event{}, fmt.Errorf("object %s/%s: unknown kind %s", o.Namespace, o.Name, o.TypeURL())
	}
	const created = 1_700_000_000
	c, err := config.New(config.Meta{
		Key: config.Key{
			Kind:      info.Kind,
			Namespace: o.Namespace,
			Name:      o.Name,
		},
		Annotations: o.Annotations,
		Created:     time.Unix(created, 0),
	}, o.Spec)
	if err != nil {
		return mesh.Event{}, fmt.Errorf("object %s/%s: %w", o.Namespace, o.Name, err)
	}
	op := mesh.Upsert
	if e.Removed {
		op = mesh.Delete
	}
	return mesh.Event{Op: op, Source: "bench", Config: c}, nil
}

// Apply brings an edit into the mesh and pushes it.
func (p *Plane) Apply(e workload.Edit) error {
	s, d, err := p.BuildSnapshot(e)
	if err == nil {
		p.Pusher.Publish(s, d)
	}
	return err
}

// BuildSnapshot brings an edit into the mesh and pushes nothing.
func (p *Plane) BuildSnapshot(e workload.Edit) (*snapshot.Snapshot, snapshot.Delta, error) {
	event, err := Event(e)
	if err != nil {
		return nil, snapshot.Delta{}, err
	}
	s, d := p.applyBatch(mesh.Batch{event})
	return s, d, nil
}

// applyBatch converts and applies a batch as ingest does.
func (p *Plane) applyBatch(batch mesh.Batch) (*snapshot.Snapshot, snapshot.Delta) {
	var objects mesh.Batch
	for _, e := range batch {
		if e.Config != nil && (e.Config.Kind == api.ServiceEntry || e.Config.Kind == api.WorkloadEntry) {
			objects = append(objects, e)
		}
	}
	for _, c := range p.converters {
		batch = c.Convert(batch)
	}
	return p.Builder.Apply(append(objects, batch...)...)
}

// Close disconnects all proxies and ends the control plane.
func (p *Plane) Close() {
	p.stop()
	p.running.Wait()
}

// expectation is a number of awaited responses.
type expectation struct {
	left atomic.Int64
	done chan struct{}
}

// Expect must be called before an action that causes this number of responses of a type. The
// channel is closed when they were received.
func (p *Plane) Expect(typeURL string, responses int) <-chan struct{} {
	e := &expectation{done: make(chan struct{})}
	e.left.Store(int64(responses))
	p.mu.Lock()
	p.expected[typeURL] = e
	p.mu.Unlock()
	return e.done
}

func (p *Plane) countResponse(typeURL string) {
	p.mu.Lock()
	e := p.expected[typeURL]
	p.mu.Unlock()
	if e != nil && e.left.Add(-1) == 0 {
		close(e.done)
	}
}

// EncodedCount is how many resources of a type were made ready for the wire since the start.
func (p *Plane) EncodedCount(typeURL string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.encoded[typeURL]
}

// Err returns the errors of proxies, or nil.
func (p *Plane) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) > 0 {
		return p.faults[0]
	}
	return nil
}

func (p *Plane) recordFault(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, err)
}
