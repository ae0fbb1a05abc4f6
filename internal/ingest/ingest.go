package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Feed is a source or a registry: both look the same from here.
type Feed interface {
	Name() string
	Run(ctx context.Context, out chan<- mesh.Batch) error
}

// Options are the parts of the pipeline.
type Options struct {
	// Feeds are in the order of precedence: of an object that several of them have, that of the first counts.
	Feeds []Feed
	// Filters see every batch first, in this order: what they take out is nowhere. Converters see the rest, in this order.
	Filters, Converters []registry.Converter
	Builder             *snapshot.Builder
	// Publish is given every new snapshot, the first one with Delta.All once all feeds are in sync. The delta is empty where
	// nothing differs that proxies could see (Problems). It must not block.
	Publish func(*snapshot.Snapshot, snapshot.Delta)
	// Observe, if set, is told of every batch before it is applied.
	Observe func(mesh.Batch)
	// Waiting, if set, is told which feeds are not in sync yet, each time that changes; nil when all are.
	Waiting func(feeds []string)
	Log     *slog.Logger
	// Recovery confines panics to the event that causes them (recover.go). If nil, they pass.
	Recovery *recovery.Recorder
}

// batchQueue is how many batches a feed may be ahead of the Builder; beyond that it waits.
const batchQueue = 64

// mergedBatches bounds how many waiting batches become one snapshot.
const mergedBatches = 256

// Run runs all feeds until the context ends, and returns nil then. A feed that fails ends it with that error: feeds
// handle what can be retried themselves.
func Run(ctx context.Context, o Options) error {
	if len(o.Feeds) == 0 {
		o.Feeds = []Feed{nothing{}}
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
		return p.run(ctx, batches)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

type pipeline struct {
	Options
	waiting    map[string]bool // feeds not in sync yet
	reported   map[config.Problem]bool
	precedence *precedence
	// guards are those of the filters and converters, and of the order of precedence.
	guards     map[registry.Converter]*registry.Guard
	resolution registry.Guard
}

func newPipeline(o Options) *pipeline {
	return &pipeline{
		Options: o, waiting: map[string]bool{}, precedence: newPrecedence(o.Feeds),
		guards: map[registry.Converter]*registry.Guard{}, resolution: registry.Guard{Recovery: o.Recovery, Source: "precedence"},
	}
}

func (p *pipeline) run(ctx context.Context, in <-chan mesh.Batch) error {
	p.tellWaiting()
	for {
		var batch mesh.Batch
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch = <-in:
		}
		batch = merge(batch, in)
		p.apply(batch)
	}
}

// merge takes what else waits, without waiting for it.
func merge(batch mesh.Batch, in <-chan mesh.Batch) mesh.Batch {
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

func (p *pipeline) apply(batch mesh.Batch) {
	if p.Observe != nil {
		p.call("observe", func() { p.Observe(batch) })
	}
	wasWaiting := len(p.waiting)
	for _, e := range batch {
		if e.Op == mesh.Synced {
			delete(p.waiting, e.Source)
		}
	}
	before := p.Builder.Current()
	s, delta := p.Builder.Apply(p.convert(p.resolve(batch))...)
	p.call("log problems", func() { p.logProblems(s) })
	switch {
	case len(p.waiting) > 0:
		// The mesh is known only in part: what proxies have is better than that.
	case wasWaiting > 0:
		p.Log.Info("all sources are in sync", "services", len(s.Services()), "problems", len(s.Problems()))
		p.call("publish", func() { p.Publish(s, snapshot.Delta{All: true}) })
	case s != before:
		p.call("publish", func() { p.Publish(s, delta) })
	}
	if len(p.waiting) != wasWaiting {
		p.tellWaiting()
	}
}

// convert passes the batch through the filters and converters. Objects that users write and one of them takes stay in it as
// objects too, for people to look at.
func (p *pipeline) convert(batch mesh.Batch) mesh.Batch {
	for _, f := range p.Filters {
		batch = p.through(f, batch)
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
		batch = p.through(c, batch)
	}
	return append(objects, batch...)
}

func (p *pipeline) tellWaiting() {
	if p.Waiting == nil {
		return
	}
	var names []string
	for _, f := range p.Feeds {
		if p.waiting[f.Name()] {
			names = append(names, f.Name())
		}
	}
	p.call("waiting", func() { p.Waiting(names) })
}

// logProblems logs each Problem when it comes and when it goes.
func (p *pipeline) logProblems(s *snapshot.Snapshot) {
	p.reported = LogProblems(p.Log, p.reported, s.Problems())
}

// LogProblems logs those of the list that were not known, and those known that are mended; it gives what is known now.
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
			log.Info("mended: " + x.String())
		}
	}
	return now
}

// nothing is the feed of a mesh without sources: in sync at once, empty for ever.
type nothing struct{}

func (nothing) Name() string { return "nothing" }

func (nothing) Run(ctx context.Context, out chan<- mesh.Batch) error {
	select {
	case out <- mesh.Batch{{Op: mesh.Synced, Source: "nothing"}}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
