package push

import (
	"context"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// overduePeriod is the interval at which streams receive stream.Tick, their event for elapsed
// time.
const overduePeriod = time.Second

// Run pushes configuration until the context ends. It starts the workers, which run generators, and
// a timer for all streams, and waits for their end before it returns. It must be called once. Its
// goroutine owns the rollout, and returns it to p.idle at the end.
func (p *Pusher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range p.workers {
		running.Go(func() { p.runJobs(ctx) })
	}
	running.Go(func() { p.ageStreams(ctx) })
	r := <-p.idle
	p.runOwner(ctx, r)
	p.idle <- r
	running.Wait()
}

// runOwner processes events, queries and timers until the context ends. A query sees all events
// that were queued before it.
func (p *Pusher) runOwner(ctx context.Context, r *rollout.Rollout) {
	var at time.Time // the time at which due fires
	var due <-chan time.Time
	for {
		p.processEvents(r)
		if next := r.Next(); !next.Equal(at) {
			at, due = next, p.clock.After(next.Sub(p.clock.Now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.events.ready.C():
		case <-due:
			at = time.Time{}
		case q := <-p.queries:
			p.processEvents(r)
			q.read(r)
			close(q.done)
		}
	}
}

// processEvents applies all queued events and the present time to the rollout. It stores in p.needs
// which events the rollout needs from streams, and then carries out the resulting actions. It
// repeats this while the actions add events.
func (p *Pusher) processEvents(r *rollout.Rollout) {
	for {
		actions := r.Step(p.clock.Now(), p.events.drainEvents()...)
		p.needs.updateFrom(r)
		for _, a := range actions {
			p.carryOut(a)
		}
		if p.events.isEmpty() {
			return
		}
	}
}

// carryOut executes an action of the rollout: it enqueues jobs, delivers offers, whose resources
// become known (KnownSets), and asks clients to report progress. For FindAcknowledged it adds the
// client found, or nil, to the events. It records the begin and end of turns in the change log, and
// sets metrics. Other actions are passed to logRecord.
func (p *Pusher) carryOut(a rollout.Action) {
	switch a := a.(type) {
	case rollout.Generate:
		p.jobs <- a.Job
	case rollout.Offer:
		p.sets.addAll(a.Resources)
		o := &offer{resources: a.Resources, changed: a.Changed, made: p.clock.Now(), changes: pendingChange(a.Turn)}
		p.changes.addOffer(a, p.clients.deliverOffer(o, a.Clients, a.Turn))
	case rollout.FindAcknowledged:
		p.events.add(rollout.Answered{Question: a.Question, By: p.clients.findAcknowledged(a.Candidates)})
	case rollout.ReportProgress:
		for _, handle := range a.Clients {
			if c := p.clients.get(handle); c != nil {
				c.reportProgress()
			}
		}
	case rollout.TurnBegan:
		p.changes.beginChange(a)
	case rollout.TurnEnded:
		p.changes.endChange(a)
		p.metrics.Published(a.Gathered, a.Triggers)
		p.metrics.Classes(a.Classes)
		p.counts.turns.Add(1)
		p.counts.snapshot.Store(a.Snapshot)
		p.log.Debug("push done", "snapshot", a.Snapshot, "took", a.Took, "proxies", a.Proxies)
	case rollout.QuarantineCounted:
		p.metrics.Quarantined(a.Quarantined)
	default:
		p.logRecord(a)
	}
}

// logRecord logs barriers and transitions that timed out before all proxies had acknowledged, and
// the begin of quarantines and suspensions, as warnings. The end of quarantines and suspensions is
// logged at level Info. It ignores all other actions.
func (p *Pusher) logRecord(a rollout.Action) {
	switch a := a.(type) {
	case rollout.BarrierTimedOut:
		p.log.Warn("server-first barrier timed out; updating clients although servers have not acknowledged "+
			"their new inbound configuration", "servers", a.Servers)
	case rollout.TransitionTimedOut:
		p.log.Warn("mutual TLS transition timed out; servers accept only the new mode although clients have not "+
			"acknowledged how to call them", "clients", a.Clients)
	case rollout.QuarantineBegan:
		q := a.Quarantined
		about := []any{
			"type", api.ShortType(q.TypeURL), "resource", q.Name, "version", q.Version, "witnesses", q.Witnesses,
			"until", q.Until, "attempt", q.Attempt, "from", q.From, "message", q.Message,
		}
		if q.Suspended == (config.Key{}) {
			p.log.Warn("resource quarantined: proxies reject it", about...)
			return
		}
		p.log.Warn("EnvoyFilter suspended: proxies reject resources that it patches",
			append(about, "filter", q.Suspended, "proxies", q.Scope.Type, "namespace", q.Scope.Namespace)...)
	case rollout.QuarantineEnded:
		message := "quarantine ended"
		about := []any{"type", api.ShortType(a.TypeURL), "resource", a.Name, "version", a.Version, "reason", a.Reason}
		if a.Suspended != (config.Key{}) {
			message, about = "suspension ended", append(about, "filter", a.Suspended)
		}
		p.log.Info(message, about...)
	}
}

// queryRollout calls read with the rollout, after all events that were added before, and waits for
// it. The owner's goroutine calls read while Run is active, and the caller's goroutine otherwise.
func (p *Pusher) queryRollout(read func(*rollout.Rollout)) {
	q := query{read: read, done: make(chan struct{})}
	select {
	case p.queries <- q:
		<-q.done
	case r := <-p.idle:
		p.processEvents(r)
		read(r)
		p.idle <- r
	}
}

// ageStreams sends stream.Tick to all streams that are open then every overduePeriod, until the
// context ends. The first Tick is sent after one period.
func (p *Pusher) ageStreams(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(overduePeriod):
		}
		for _, c := range p.clients.all() {
			c.applyEvent(stream.Tick{})
		}
	}
}
