package push

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are the parts and settings of a Pusher.
type Options struct {
	// Generators make the resources. Those of one type are sent in this order.
	Generators []Generator
	// Logger is nil for none, Metrics nil for none, Clock nil for the system's.
	Logger  *slog.Logger
	Metrics Metrics
	Clock   Clock
	// Debounce is how changes are gathered.
	Debounce Debounce
	// Quarantine is how long refusals are collected and quarantines last. Its zero value has the defaults.
	Quarantine quarantine.Options
	// Secrets, if set, is told of each stream, which secrets it asks for, each time that changes, and when it ends, so that somebody can see to it that they
	// are in the snapshot. It must not block.
	Secrets func(Subscription)
	// Workers bounds how many producers make resources at the same time; 0: one for each CPU.
	Workers int
	// Names bounds what a stream may subscribe to (default 50,000 names and 8 MiB for each type; MESHPILOT_XDS_MAX_NAMES, MESHPILOT_XDS_MAX_NAME_BYTES).
	Names stream.NameLimits
	// Recovery confines a panic over one proxy to its stream. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Pusher keeps connected proxies up to date. Its methods may be called by many goroutines at once.
type Pusher struct {
	generators []Generator
	log        *slog.Logger
	metrics    Metrics
	clock      Clock
	debounce   Debounce
	workers    int
	timing     quarantine.Options
	secrets    func(Subscription)
	limits     stream.NameLimits
	recovery   *recovery.Recorder

	wake  chan struct{} // holds one token when something was published
	hurry chan struct{} // holds one token when the time is to be looked at sooner
	work  *queue
	names *nameTable
	nacks nackLog
	count counts

	mu       sync.Mutex
	snapshot *snapshot.Snapshot // of the newest turn, nil before the first
	inbox    inbox
	turn     turn
	gate     gate
	easing   easing
	// unsettled is until when callers that other control planes tell may not know how to call servers.
	unsettled time.Time
	// observing are the producers, and suspensions the classes, of which something was refused. quarantineDue is when something of
	// it is to be decided; zero if nothing is.
	observing     map[*producer]struct{}
	suspensions   map[view.Key]*suspensions
	quarantineDue time.Time
	classes       map[view.Key]*class
	producers     map[producerKey]*producer
	clients       map[*Client]struct{}
	addresses     map[netip.Addr]map[*Client]struct{}
	ids           uint64
}

// inbox is what was published since the last turn began.
type inbox struct {
	snapshot    *snapshot.Snapshot // nil: nothing
	delta       snapshot.Delta
	first, last time.Time
}

// New makes a Pusher. It does nothing before Run.
func New(o Options) *Pusher {
	p := &Pusher{
		generators: o.Generators, log: o.Logger, metrics: o.Metrics, clock: o.Clock, debounce: o.Debounce, workers: o.Workers, secrets: o.Secrets, recovery: o.Recovery,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), work: newQueue(), names: newNameTable(),
		timing: o.Quarantine, observing: map[*producer]struct{}{}, suspensions: map[view.Key]*suspensions{},
		classes: map[view.Key]*class{}, producers: map[producerKey]*producer{},
		clients: map[*Client]struct{}{}, addresses: map[netip.Addr]map[*Client]struct{}{},
	}
	p.count.candidates = map[string]*atomic.Int64{}
	for i := range p.generators {
		p.generators[i].check()
		if p.count.candidates[p.generators[i].TypeURL] == nil {
			p.count.candidates[p.generators[i].TypeURL] = new(atomic.Int64)
		}
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.metrics == nil {
		p.metrics = NoMetrics{}
	}
	if p.clock == nil {
		p.clock = SystemClock{}
	}
	if p.workers <= 0 {
		p.workers = runtime.GOMAXPROCS(0)
	}
	p.limits = withDefaults(o.Names)
	return p
}

// Publish says that there is a newer snapshot, and how it differs from the one published before. It never blocks.
func (p *Pusher) Publish(s *snapshot.Snapshot, d snapshot.Delta) {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshot == nil {
		d.All = true
	}
	if d.Empty() {
		return
	}
	if p.inbox.snapshot == nil {
		p.inbox.first = now
	}
	p.inbox.snapshot, p.inbox.last = s, now
	p.inbox.delta.Merge(d)
	p.rouse()
}

// PushAll makes everything anew and sends every proxy all that it asked for once more, unchanged or not. It is for
// operators who want to see it happen.
func (p *Pusher) PushAll() {
	p.mu.Lock()
	var clients []*Client
	for c := range p.clients {
		clients = append(clients, c)
	}
	s := p.snapshot
	p.mu.Unlock()
	if s != nil {
		p.Publish(s, snapshot.Delta{All: true})
	}
	for _, c := range clients {
		c.step(stream.Again{})
	}
}

func (p *Pusher) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tick is how often streams are told that time has passed (stream.Overdue).
const tick = time.Second

// Run pushes until the context ends.
func (p *Pusher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range p.workers {
		running.Go(func() { p.produce(ctx) })
	}
	running.Go(func() { p.tick(ctx) })
	for p.gather(ctx) && p.push(ctx) {
	}
	running.Wait()
}

// gather waits until a turn is due; false when the context is over.
func (p *Pusher) gather(ctx context.Context) bool {
	for {
		var due <-chan time.Time
		p.mu.Lock()
		if p.inbox.snapshot != nil {
			now := p.clock.Now()
			at := p.debounce.due(gathering{p.inbox.first, p.inbox.last, p.inbox.delta.EndpointsOnly()}, p.turn.last)
			if !at.After(now) {
				p.mu.Unlock()
				return true
			}
			due = p.clock.After(at.Sub(now))
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-p.wake:
		case <-due:
		}
	}
}

func (p *Pusher) tick(ctx context.Context) {
	ticked := p.clock.Now()
	look := ticked.Add(tick)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hurry:
			if at := p.clock.Now().Add(soon); at.Before(look) {
				look = at
			}
			continue
		case <-p.clock.After(look.Sub(p.clock.Now())):
		}
		now := p.clock.Now()
		p.mu.Lock()
		p.relax(now)
		p.quarantineDue = p.expireQuarantines(now)
		look = now.Add(p.patience())
		p.mu.Unlock()
		if now.Sub(ticked) >= tick {
			ticked = now
			p.overdue(now)
		}
	}
}

// overdue tells streams that time has passed.
func (p *Pusher) overdue(now time.Time) {
	p.mu.Lock()
	clients := make([]*Client, 0, len(p.clients))
	for c := range p.clients {
		clients = append(clients, c)
	}
	p.sweep(now)
	p.tidyCandidates()
	p.sweepSuspensions(now)
	p.mu.Unlock()
	for _, c := range clients {
		c.step(stream.Overdue{})
	}
}
