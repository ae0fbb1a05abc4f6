package rollout

import (
	"net/netip"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
)

// Rollout is the state of bringing configuration to all connected proxies. It must be made with
// [New] and is not safe for concurrent use.
type Rollout struct {
	options Options

	now      time.Time          // of the Step under way
	snapshot *snapshot.Snapshot // of the newest turn; nil before the first
	inbox    inbox
	turn     turn
	served   uint64 // see Served

	barrier    serverFirstBarrier
	transition mtlsTransition

	classes   map[view.Key]*class
	producers map[producerKey]*producer
	// everyChange contains the producers to which beginTurn passes every change, including a change
	// that alters only EDS. These are all producers of endpoints, and other producers while they are
	// busy or failed. See indexProducer.
	everyChange map[*producer]struct{}
	clients     map[*Client]struct{}
	addresses   map[netip.Addr]map[*Client]struct{}

	// queue are the producers whose generators are to run, running is the number of Jobs without a
	// result.
	queue   []*producer
	running int

	// observing are the producers, and suspensions the classes, with refused resources.
	observing   map[*producer]struct{}
	suspensions map[view.Key]*suspensions
	// quarantineDue is when a quarantine has something to decide; zero if none has. quarantineMoved
	// is set if it must be computed again.
	quarantineDue   time.Time
	quarantineMoved bool
	// watched counts, by type URL, the producers whose candidates are watched.
	watched map[string]int

	// composing are the classes that may get another ResourceSnapshot, moving the clients that may
	// get another class: both are handled at the end of the Step.
	composing map[*class]struct{}
	moving    map[*Client]struct{}
	// recount means that the number of quarantined resources may have changed.
	recount bool
	sweepAt time.Time
	actions []Action
}

// Options are the parts and settings of a Rollout.
type Options struct {
	// Generators make the resources. The resources of one type are sent in this order.
	Generators []view.Generator
	Debounce   Debounce
	// Quarantine is how long refusals are collected and quarantines last. Zero values mean the
	// defaults.
	Quarantine quarantine.Options
	// MaxJobs bounds how many Jobs are without a result at any time (default 8).
	MaxJobs int
	// RecordPanic records a panic that was recovered; value is the result of recover, and about are
	// pairs for the log. If it panics itself, or is nil, the panic is not recovered.
	RecordPanic func(value any, about ...any)
}

const defaultMaxJobs = 8

// inbox contains the publications since the last turn began.
type inbox struct {
	snapshot    *snapshot.Snapshot // nil if nothing was published
	delta       snapshot.Delta
	newest      uint64 // version of the newest snapshot that does not differ from snapshot for proxies
	first, last time.Time
}

// turn is the bringing of all classes up to one snapshot.
type turn struct {
	active bool
	inbox  inbox
	began  time.Time
	// waiting are the producers that are not done yet. finished are the producers that have become
	// done during the Step.
	waiting  map[*producer]struct{}
	finished []*producer
	proxies  int // number of offers
	last     lastTurn
	number   uint64 // 1 for the first; that of the last turn if none is active
	// resources counts the resources that differ, by type URL.
	resources map[string]int
}

// New returns a Rollout without clients. If o.MaxJobs is not positive, it is defaultMaxJobs; if
// o.RecordPanic is nil, panics propagate. New panics if a generator is not valid (checkGenerator).
func New(o Options) *Rollout {
	for i := range o.Generators {
		checkGenerator(&o.Generators[i])
	}
	if o.MaxJobs <= 0 {
		o.MaxJobs = defaultMaxJobs
	}
	if o.RecordPanic == nil {
		o.RecordPanic = func(value any, _ ...any) { panic(value) }
	}
	return &Rollout{
		options:     o,
		observing:   map[*producer]struct{}{},
		suspensions: map[view.Key]*suspensions{},
		watched:     map[string]int{},
		classes:     map[view.Key]*class{},
		producers:   map[producerKey]*producer{},
		everyChange: map[*producer]struct{}{},
		clients:     map[*Client]struct{}{},
		addresses:   map[netip.Addr]map[*Client]struct{}{},
		composing:   map[*class]struct{}{},
		moving:      map[*Client]struct{}{},
	}
}

// emitAction appends an action to the result of the current Step.
func (r *Rollout) emitAction(a Action) { r.actions = append(r.actions, a) }

// composeLater adds the classes of a producer to r.composing, so that their ResourceSnapshots are
// composed again in this Step.
func (r *Rollout) composeLater(pr *producer) {
	for cl := range pr.classes {
		r.composing[cl] = struct{}{}
	}
}

// holdClients sets the server-first barrier, or raises its level. It does nothing if the barrier is
// at this level or a higher one.
func (r *Rollout) holdClients(level holdLevel) { r.barrier.raiseLevel(level, r.now, r.producers) }

// isConnected reports whether the client was added and not removed since.
func (r *Rollout) isConnected(c *Client) bool {
	_, connected := r.clients[c]
	return connected
}

// indexProducer adds a producer to r.everyChange or removes it, after its fields busy or failed were
// set. A producer that no class needs any more is removed.
func (r *Rollout) indexProducer(pr *producer) {
	if len(pr.classes) > 0 && (pr.busy || pr.failed || pr.gen.TypeURL == api.EndpointType) {
		r.everyChange[pr] = struct{}{}
	} else {
		delete(r.everyChange, pr)
	}
}

// watchCandidates updates r.watched, the number of producers of each type for which
// acknowledgements of voters are needed. A producer is counted while its candidates are watched
// (isWatched) and it was not removed.
func (r *Rollout) watchCandidates(pr *producer) {
	needed := r.producers[pr.producerKey] == pr && pr.candidates.isWatched(r.now, pr.voters)
	switch {
	case needed == pr.candidates.watched:
	case needed:
		r.watched[pr.gen.TypeURL]++
	default:
		r.watched[pr.gen.TypeURL]--
	}
	pr.candidates.watched = needed
}
