package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// problemPause is how long the Problems of the source stay as they are at least: kinds fail, and mend, one after the other.
const problemPause = time.Second

// run is one Run: its goroutine sends.
type run struct {
	*Source
	follower *follower
	began    time.Time
	synced   bool

	// told are the failures, and problems the Problems of the source as they were sent last, when that was reported.
	told     []failure
	problems []config.Problem
	reported time.Time
}

func (r *run) run(ctx context.Context, out chan<- mesh.Batch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newFollower(ctx, r.Source)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	r.follower, r.began = f, r.o.Clock.Now()
	defer f.group.Wait()
	defer cancel()
	if err := f.begin(); err != nil {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	r.loop(ctx, out)
	return nil
}

// loop waits for changes and for someone to take the batches. While nobody does, changes add up in the next one.
func (r *run) loop(ctx context.Context, out chan<- mesh.Batch) {
	var batch mesh.Batch
	for {
		if batch == nil {
			batch = r.next()
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
		case <-r.store.changed:
		case <-r.due():
		}
	}
}

// next gives what there is to send, nil if there is nothing.
func (r *run) next() mesh.Batch {
	now := r.o.Clock.Now()
	for _, s := range r.store.doubtful(now) {
		r.follower.again(s)
	}
	batch := r.report(now)
	switch {
	case r.synced:
		batch = append(batch, r.store.take()...)
	case len(r.store.waiting(now.Sub(r.began) >= r.o.Patience)) == 0:
		r.synced = true
		batch = append(batch, r.store.take()...)
		r.o.Logger.Info("the API server was read", "source", r.Name(), "objects", len(batch), "took", now.Sub(r.began).Round(time.Millisecond))
		batch = append(batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
	}
	return batch
}

// report tells what cannot be read, if that differs from what was told.
func (r *run) report(now time.Time) mesh.Batch {
	if now.Sub(r.reported) < problemPause {
		return nil
	}
	r.told = r.store.failures(now, r.o.Grace, r.told)
	list := r.store.doubts()
	for _, f := range r.told {
		list = append(list, f.problem(r.Name()))
	}
	slices.SortFunc(list, config.Problem.Compare)
	if slices.Equal(list, r.problems) {
		return nil
	}
	r.problems, r.reported = list, now
	return mesh.Batch{{Source: r.Name(), Problems: &mesh.Problems{Scope: r.Name(), List: list}}}
}

// due gives a channel that gets something when there is something to do although nothing comes; nil if there is not.
func (r *run) due() <-chan time.Time {
	now := r.o.Clock.Now()
	var at []time.Time
	if !r.synced && now.Before(r.began.Add(r.o.Patience)) {
		at = append(at, r.began.Add(r.o.Patience))
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
