package push

import (
	"log/slog"
	"runtime"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Types of package rollout that users of a Pusher need.
type (
	// Debounce configures how long changes are collected before they are pushed.
	Debounce = rollout.Debounce
	// Quarantined is a resource that is withheld from proxies because some refused it.
	Quarantined = rollout.Quarantined
)

// Options are the dependencies and settings of a Pusher.
type Options struct {
	// Generators generate the resources. The resources of one type are sent in this order.
	Generators []view.Generator
	// Logger receives the log. If nil, nothing is logged.
	Logger *slog.Logger
	// Metrics receives measurements. If nil, nothing is measured.
	Metrics Metrics
	// Clock returns the time. If nil, the system clock is used.
	Clock clock.Clock
	// Debounce configures how long changes are collected before they are pushed.
	Debounce Debounce
	// Quarantine configures how long refusals are collected and how long quarantines last. Zero
	// fields have their defaults.
	Quarantine quarantine.Options
	// Secrets is called with the secrets that a stream subscribes to: when the stream begins, after
	// each change, and when it ends. It must not block. If nil, subscriptions are not reported.
	Secrets func(Subscription)
	// Workers bounds how many generators run at the same time (default: GOMAXPROCS, usually the
	// number of CPUs).
	Workers int
	// Names bounds the subscriptions of a stream (default 50,000 names and 8 MiB for each type;
	// MESHPILOT_XDS_MAX_NAMES, MESHPILOT_XDS_MAX_NAME_BYTES).
	Names stream.NameLimits
	// Recovery confines a panic over one proxy to its stream. If nil, panics are not recovered.
	Recovery *recovery.Recorder
}

// Pusher keeps connected proxies up to date. Its methods may be called by many goroutines at once.
type Pusher struct {
	environment
	workers int
	secrets func(Subscription)
	clients *clientTable
	jobs    chan *rollout.Job
	// idle holds the rollout while Run is not active. queries are answered by the owner.
	idle    chan *rollout.Rollout
	queries chan query
}

// query is a request to call read with the rollout. done is closed afterwards.
type query struct {
	read func(*rollout.Rollout)
	done chan struct{}
}

// jobsPerWorker is how many jobs may be queued for each worker, so that no worker waits for the
// owner. Changes for a producer without a queued job are collected until it has one.
const jobsPerWorker = 4

// New returns a Pusher that pushes nothing before Run. If nil, Logger discards, Metrics records
// nothing, and Clock is the system's. Workers defaults to GOMAXPROCS, the limits in Names to
// DefaultNames. Without Recovery, panics in streams and in the rollout are not recovered.
func New(o Options) *Pusher {
	p := &Pusher{
		environment: environment{
			log: o.Logger, metrics: o.Metrics, clock: o.Clock, recovery: o.Recovery, limits: withDefaults(o.Names),
			names: newNameTable(), sets: newSetTable(), needs: newNeeds(o.Generators), events: newEventQueue(),
		},
		workers: o.Workers, secrets: o.Secrets, clients: newClientTable(),
		idle: make(chan *rollout.Rollout, 1), queries: make(chan query),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.metrics == nil {
		p.metrics = NoMetrics{}
	}
	p.nacks.metrics = p.metrics
	if p.clock == nil {
		p.clock = clock.System{}
	}
	if p.workers <= 0 {
		p.workers = runtime.GOMAXPROCS(0)
	}
	p.jobs = make(chan *rollout.Job, p.workers*jobsPerWorker)
	p.idle <- rollout.New(rollout.Options{
		Generators: o.Generators, Debounce: o.Debounce, Quarantine: o.Quarantine, MaxJobs: cap(p.jobs),
		RecordPanic: func(value any, about ...any) { _ = o.Recovery.Record(value, "xds", about...) },
	})
	return p
}

// NameLimits returns how many names, and how many bytes of them, a stream may subscribe to.
func (p *Pusher) NameLimits() stream.NameLimits { return p.limits }

// NewNameSum returns a NameSum without names, for KnownNames.
func (p *Pusher) NewNameSum() NameSum { return NameSum{seed: p.names.seed} }

// KnownNames returns the list of the names in s if some client subscribes to the same names, and a
// value that keeps the list reachable, or nil for both. They are Subscribe and Interned of a
// stream.Request. The list must not be changed.
func (p *Pusher) KnownNames(s NameSum) (names []string, interned any) { return p.names.findNames(s) }

// KnownSets returns the resources of a type that some clients are offered and whose number and sum
// of resource.Hash are the given ones, or nil if there are none.
func (p *Pusher) KnownSets(typeURL string, count int, sum uint64) *stream.SetList {
	return p.sets.find(setSum{typeURL, count, sum})
}

// Publish replaces the snapshot that is pushed and wakes Run. d must contain all differences from
// the snapshot published before. It never blocks.
func (p *Pusher) Publish(s *snapshot.Snapshot, d snapshot.Delta) {
	p.events.publish(s, d, p.clock.Now())
}

// PushAll generates everything again and resends to every proxy all resources that it subscribes
// to, even unchanged ones. Before the first snapshot there is nothing to generate, and it only
// marks streams for resending.
func (p *Pusher) PushAll() {
	p.events.publishAgain(snapshot.Delta{All: true}, p.clock.Now())
	for _, c := range p.clients.all() {
		c.applyEvent(stream.ResendAll{})
	}
}

// Connect adds a stream of a proxy, enqueues Connected for the rollout, reports the stream to
// Options.Secrets without names, and counts and logs it. peer is the proxy's network address, for
// debug pages. The caller must close the stream. Streams of one node ID are independent of each
// other: during a hot restart a proxy has two.
func (p *Pusher) Connect(proxy *mesh.Proxy, mode stream.Mode, peer string) *Client {
	c := &Client{
		session: session{
			env:  &p.environment,
			node: proxy,
			mode: mode,
			wake: notify.NewWake(),
			id:   proxy.Name + "." + proxy.Namespace + "-" + strconv.FormatUint(p.clients.nextID(), 10),
			machine: stream.New(
				stream.Options{Mode: mode, Intern: p.names.internNames, Names: p.limits, Drain: drainTicks(proxy)},
			),
		},
		peer:            peer,
		connected:       p.clock.Now(),
		invalidMetadata: snapshot.InvalidMetadataOf(&proxy.Metadata),
		secrets:         secretSubscription{report: p.secrets},
	}
	c.updateSyncState() // before the first event nothing was sent
	c.handle = rollout.Client{ID: c.id, Proxy: proxy}
	c.unregister = func() bool { return p.clients.remove(c) }
	c.secrets.reportOpened(c.id, proxy)
	p.clients.add(c)
	p.events.add(rollout.Connected{Client: &c.handle})
	p.metrics.Connected(1, proxy.Metadata.IstioVersion)
	p.log.Info("ADS: new connection for node:"+c.id, "id", proxy.ID, "peer", peer, "mode", mode.String())
	return c
}

// Disconnect closes the stream with this ID and reports whether it existed. The proxy is expected
// to reconnect.
func (p *Pusher) Disconnect(id string) bool {
	c := p.clients.find(id)
	if c != nil {
		c.Close()
	}
	return c != nil
}

// Nacks returns the last refusals (at most maxNacks), both standing and ended, newest first.
func (x Reports) Nacks() []Nack { return x.pusher.nacks.newestFirst() }
