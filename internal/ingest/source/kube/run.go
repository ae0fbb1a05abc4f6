package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// problemPause is the minimum interval between changes of the source's Problems, because kinds fail
// and recover one after the other.
const problemPause = time.Second

// run is the state of one Run. It belongs to the goroutine that sends.
type run struct {
	*Source
	follower *reflectors
	began    time.Time
	synced   bool

	// told are the failures that were sent last, and reported is when Problems were.
	told     []failure
	problems *emit.ProblemEmitter[string] // by the name of the source
	reported time.Time
}

// readAndSend runs the reflectors and sends batches until ctx ends, and then returns nil when they
// have ended. It returns an error if a client for a kind cannot be made.
func (r *run) readAndSend(ctx context.Context, out chan<- mesh.Batch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newReflectors(ctx, r.Source)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	r.follower, r.began = f, r.o.Clock.Now()
	defer f.group.Wait()
	defer cancel()
	if err := f.startAll(); err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	r.sendBatches(ctx, out)
	return nil
}

// sendBatches sends the events of changed objects to out until ctx ends. While the receiver is
// busy, further changes wait for the next batch. Without changes it waits for one, or for the next
// time at which something is due.
func (r *run) sendBatches(ctx context.Context, out chan<- mesh.Batch) {
	var batch mesh.Batch
	for {
		if batch == nil {
			batch = r.nextBatch()
		}
		to := out
		if batch == nil {
			to = nil
		}
		select {
		case <-ctx.Done():
			return
		case to <- batch:
			batch = nil
		case <-r.store.wake.C():
		case <-r.nextDue():
		}
	}
}

// nextBatch returns the batch to send, or nil if there is nothing. Until all kinds are listed it
// has only Problems; then objects and Synced follow, which it logs. After SyncTimeout it does not
// wait for dispensable kinds and Options.OptionalKinds. It restarts reflectors that must list
// again.
func (r *run) nextBatch() mesh.Batch {
	now := r.o.Clock.Now()
	for _, s := range r.store.shardsToRelist(now) {
		r.follower.restartReflector(s)
	}
	batch := r.problemEvents(now)
	switch {
	case r.synced:
		batch = append(batch, r.store.drainEvents()...)
	case len(r.store.unlistedShards(now.Sub(r.began) >= r.o.SyncTimeout)) == 0:
		r.synced = true
		batch = append(batch, r.store.drainEvents()...)
		r.o.Logger.Info("the API server was read", "source", r.Name(), "objects", len(batch),
			"took", now.Sub(r.began).Round(time.Millisecond))
		batch = append(batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
	}
	return batch
}

// problemEvents returns an event with all Problems of the source if they differ from those sent
// last, otherwise nil. It returns nil within problemPause of the last change.
func (r *run) problemEvents(now time.Time) mesh.Batch {
	if now.Sub(r.reported) < problemPause {
		return nil
	}
	r.told = r.store.failures(now, r.o.Grace, r.told)
	list := r.store.shrinkProblems()
	for _, f := range r.told {
		list = append(list, f.problem(r.Name()))
	}
	slices.SortFunc(list, config.Problem.Compare)
	batch := r.problems.Emit(nil, r.Name(), list)
	if batch != nil {
		r.reported = now
	}
	return batch
}

// nextDue returns a channel that receives at the next time at which there is work without an event,
// or nil: the end of SyncTimeout, a deadline of the store or the next report of Problems.
func (r *run) nextDue() <-chan time.Time {
	now := r.o.Clock.Now()
	var at []time.Time
	if !r.synced && now.Before(r.began.Add(r.o.SyncTimeout)) {
		at = append(at, r.began.Add(r.o.SyncTimeout))
	}
	at = append(at, r.store.deadlines(r.o.Grace)...)
	at = slices.DeleteFunc(at, func(t time.Time) bool { return !t.After(now) })
	if now.Before(r.reported.Add(problemPause)) {
		at = append(at, r.reported.Add(problemPause))
	}
	if len(at) == 0 {
		return nil
	}
	return r.o.Clock.After(slices.MinFunc(at, time.Time.Compare).Sub(now))
}
