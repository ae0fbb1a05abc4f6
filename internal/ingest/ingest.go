package ingest

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Feed is a source or a registry.
type Feed interface {
	Name() string
	Run(ctx context.Context, out chan<- mesh.Batch) error
}

// Options configure Run.
type Options struct {
	// Feeds are sorted by precedence: if several feeds have an object with the same key, the first
	// feed's object is used.
	Feeds []Feed
	// Filters process each batch first, in this order; events that they remove are not processed
	// further. Converters process the result, in this order.
	Filters, Converters []registry.Converter
	Builder             *snapshot.Builder
	// Publish is called with every new snapshot: first with Delta.All once all feeds are in sync,
	// then per change. The delta is empty if only Problems or other data that proxies do not see
	// changed. Publish must not block.
	Publish func(*snapshot.Snapshot, snapshot.Delta)
	// Observe is called with every batch before it is applied, if it is set.
	Observe func(mesh.Batch)
	// Waiting is called with the names of the feeds that are not in sync yet, each time that list
	// changes, if it is set. The last call has nil.
	Waiting func(feeds []string)
	Log     *slog.Logger
	// Recovery confines panics to the event that causes them (recover.go). If nil, they propagate.
	Recovery *recovery.Recorder
	// Previews can copy the state, if it is set.
	Previews *Previews
	// Clock is for TimedConverters (default that of the system).
	Clock clock.Clock
}

// batchQueue is the capacity of the channel of batches. A feed blocks while it is full.
const batchQueue = 64

// mergedBatches limits how many waiting batches are merged into one snapshot.
const mergedBatches = 256

// Run runs all feeds and applies their batches until the context ends, by cancellation or at its
// deadline, and then returns nil. If a feed fails before, Run stops the others and returns the
// error with the feed's name; feeds retry transient errors themselves. A feed that returns nil
// stops nothing, even the last one. Without feeds, the mesh is empty and in sync at once.
func Run(ctx context.Context, o Options) error {
	if len(o.Feeds) == 0 {
		o.Feeds = []Feed{emptyFeed{}}
	}
	group, ctx := errgroup.WithContext(ctx)
	batches := make(chan mesh.Batch, batchQueue)
	for _, f := range o.Feeds {
		group.Go(func() error {
			err := f.Run(ctx, batches)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		p := newPipeline(o)
		for _, f := range o.Feeds {
			p.waiting[f.Name()] = true
		}
		p.applyBatches(ctx, batches)
		return nil
	})
	return group.Wait()
}

// pipeline is the state of Run.
type pipeline struct {
	Options
	waiting    map[string]bool // feeds not in sync yet
	reported   map[config.Problem]bool
	precedence *precedence
	// guards has a guard per filter and converter; resolution is the guard of the precedence.
	guards     map[registry.Converter]*registry.Guard
	resolution registry.Guard
}

// newPipeline returns a pipeline for o that waits for no feed: the caller adds the feeds to
// p.waiting. A nil Clock becomes the system's clock.
func newPipeline(o Options) *pipeline {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	return &pipeline{
		Options: o, waiting: map[string]bool{}, precedence: newPrecedence(o.Feeds),
		guards:     map[registry.Converter]*registry.Guard{},
		resolution: registry.Guard{Recovery: o.Recovery, Source: "precedence"},
	}
}

// applyBatches first reports the waiting feeds, then applies batches until the context ends. With a
// batch it applies up to mergedBatches others that are already waiting, as one change. An empty
// batch is applied when a TimedConverter has to convert again. Requests for previews are answered
// between batches.
func (p *pipeline) applyBatches(ctx context.Context, in <-chan mesh.Batch) {
	p.reportWaiting()
	for {
		var batch mesh.Batch
		select {
		case <-ctx.Done():
			return
		case reply := <-p.previewRequests():
			p.copyTo(reply)
			continue
		case batch = <-in:
		case <-p.nextWake():
		}
		batch = mergeWaiting(batch, in)
		p.applyBatch(batch)
	}
}

// mergeWaiting returns batch with the batches appended that are waiting in the channel, at most
// mergedBatches. It does not block, and leaves the array of batch unchanged.
func mergeWaiting(batch mesh.Batch, in <-chan mesh.Batch) mesh.Batch {
	for range mergedBatches {
		select {
		case more := <-in:
			batch = append(batch[:len(batch):len(batch)], more...)
		default:
			return batch
		}
	}
	return batch
}

// applyBatch passes a batch to Observe unless it is empty, converts it and applies it to the
// Builder. Until all feeds have sent Synced it publishes nothing. Then the first snapshot is
// published as a change of everything, and later ones only if they differ. It logs Problems that
// appeared or were resolved, even before, and calls Waiting after a feed got in sync. Panics of
// callbacks are recovered (callGuarded).
func (p *pipeline) applyBatch(batch mesh.Batch) {
	if p.Observe != nil && len(batch) > 0 {
		p.callGuarded("observe", func() { p.Observe(batch) })
	}
	wasWaiting := len(p.waiting)
	for _, e := range batch {
		if e.Op == mesh.Synced {
			delete(p.waiting, e.Source)
		}
	}
	before := p.Builder.Current()
	s, delta := p.Builder.Apply(p.convert(p.resolvePrecedence(batch))...)
	p.callGuarded("log problems", func() { p.logProblems(s) })
	switch {
	case len(p.waiting) > 0:
		// The mesh is incomplete; proxies keep their current configuration.
	case wasWaiting > 0:
		p.Log.Info("all sources are in sync", "services", len(s.Services()), "problems", len(s.Problems()))
		p.callGuarded("publish", func() { p.Publish(s, snapshot.Delta{All: true}) })
	case s != before:
		p.callGuarded("publish", func() { p.Publish(s, delta) })
	}
	if len(p.waiting) != wasWaiting {
		p.reportWaiting()
	}
}

// convert passes a batch through all filters and then all converters, each on the output of the one
// before, and returns the last output. Events about ServiceEntries, WorkloadEntries and Ingresses
// that pass the filters precede that output, because debug pages and status need them besides their
// conversion.
func (p *pipeline) convert(batch mesh.Batch) mesh.Batch {
	for _, f := range p.Filters {
		batch = p.passThrough(f, batch)
	}
	var objects mesh.Batch
	for _, e := range batch {
		if e.Config == nil {
			continue
		}
		switch e.Config.Kind {
		case api.ServiceEntry, api.WorkloadEntry, api.Ingress:
			objects = append(objects, e)
		}
	}
	for _, c := range p.Converters {
		batch = p.passThrough(c, batch)
	}
	return append(objects, batch...)
}

// reportWaiting calls Options.Waiting, if that is set, with the names of the feeds that are not in
// sync, in the order of Feeds. The list is nil if all are in sync. A panic of the callback is
// recovered with Options.Recovery.
func (p *pipeline) reportWaiting() {
	if p.Waiting == nil {
		return
	}
	var names []string
	for _, f := range p.Feeds {
		if p.waiting[f.Name()] {
			names = append(names, f.Name())
		}
	}
	p.callGuarded("waiting", func() { p.Waiting(names) })
}

// logProblems logs the Problems of s that the previous snapshot did not have, and the previous
// snapshot's Problems that were resolved.
func (p *pipeline) logProblems(s *snapshot.Snapshot) {
	p.reported = LogProblems(p.Log, p.reported, s.Problems())
}

// LogProblems logs a warning for each Problem of list that is not in known. It logs at level Info
// that a Problem in known was resolved if it is not in list. It returns the set of Problems in
// list, a new map, which must be passed as known to the next call. known may be nil.
func LogProblems(log *slog.Logger, known map[config.Problem]bool, list []config.Problem) map[config.Problem]bool {
	now := make(map[config.Problem]bool, len(list))
	for _, x := range list {
		now[x] = true
		if !known[x] {
			log.Warn(x.String(), "severity", string(x.Severity))
		}
	}
	for x := range known {
		if !now[x] {
			log.Info("problem resolved: " + x.String())
		}
	}
	return now
}

// emptyFeed is the feed of a mesh without sources. It is in sync at once and sends no objects.
type emptyFeed struct{}

func (emptyFeed) Name() string { return "nothing" }

// Run emits Synced and then blocks until ctx ends. It returns nil.
func (emptyFeed) Run(ctx context.Context, out chan<- mesh.Batch) error {
	select {
	case out <- mesh.Batch{{Op: mesh.Synced, Source: "nothing"}}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
