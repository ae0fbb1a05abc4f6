package consul

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/time/rate"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Options configure a Source.
type Options struct {
	Settings
	// StartTimeout limits how long another datacenter or a peer may delay Synced; 0 sets no limit
	// (PILOT_REMOTE_CLUSTER_TIMEOUT).
	StartTimeout time.Duration
	Logger       *slog.Logger       // if nil, nothing is logged
	Metrics      *obs.ConsulMetrics // must be set
}

// Source watches the services of Consul. It emits an object of Kind for each service with
// instances.
type Source struct {
	options Options
	part    part
	client  *api.Client
	status  atomic.Pointer[adapter.Status] // replaced by the goroutine of Run
}

var _ registry.Registry = (*Source)(nil)

// New returns a Source, which opens no connection before Run. It returns an error that names the
// flag if the settings are invalid or the CA file cannot be read. A nil Logger discards.
func New(o Options) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	client, err := o.newClient()
	if err != nil {
		return nil, fmt.Errorf("--consulserverURL: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{options: o, client: client}, nil
}

// Name returns the name of the source: "consul/ADDRESS", of another datacenter
// "consul/ADDRESS/DATACENTER", of a peer "consul/ADDRESS/PEER.peer", or "consul" if the URL is
// invalid.
func (s *Source) Name() string {
	u, err := s.options.parseURL()
	if err != nil {
		return "consul"
	}
	if s.part != (part{}) {
		return "consul/" + u.Host + "/" + s.part.String()
	}
	return "consul/" + u.Host
}

// queryRate and queryBurst limit all queries together.
const (
	queryRate  = 200
	queryBurst = 400
)

// Run watches Consul until the context ends, and then returns nil. It sends the services that exist
// at the start, then Synced, then changes. While Consul does not answer, it sends only Problems,
// and the last known services stay. The Source of another datacenter or a peer sends Synced after
// Options.StartTimeout at the latest.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		Source: s, settings: s.options.Settings, metrics: s.options.Metrics, results: make(chan *result),
		slots: make(chan struct{}, s.options.Queries), limiter: rate.NewLimiter(queryRate, queryBurst),
		services: map[string]*watched{}, failures: map[string]string{},
		problems: emit.NewProblemEmitter(s.Name(), func(scope string) string { return s.Name() + " " + scope }),
	}
	defer r.running.Wait()
	defer cancel()
	r.startSession(ctx)
	if r.settings.TokenFile == "" {
		r.startWatches(ctx)
	} else {
		r.running.Go(func() {
			_ = recovery.Loop(ctx, "consul token", func(ctx context.Context) error { r.followToken(ctx); return nil })
		})
	}
	timeout := r.startTimeout()
	for {
		var batch mesh.Batch
		var reply func()
		select {
		case <-ctx.Done():
			return nil
		case <-timeout:
			batch = r.endWait()
		case x := <-r.results:
			d := proceed // after a panic, until the next change
			_ = recovery.Call(ctx, "task", func() error {
				batch, d = r.handle(ctx, x)
				return nil
			}, "task", "consul", "query", x.name)
			r.updateStatus(x)
			reply = func() { x.reply <- d }
		}
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		if reply != nil {
			reply()
		}
	}
}

// run is the state of one Run. The fields after results belong to the goroutine of Run.
type run struct {
	*Source
	settings  Settings
	metrics   *obs.ConsulMetrics
	running   sync.WaitGroup
	slots     chan struct{} // one per query of a service
	limiter   *rate.Limiter
	verifying sync.Mutex // one check of the servers at a time
	watches   atomic.Int64
	secret    atomic.Pointer[string] // the ACL token
	// current is the session: its context ends when a new token or a new generation makes running
	// queries useless.
	current atomic.Pointer[session]
	results chan *result

	identity serverIdentity
	// identified is set once the servers were named, or may not be read. Servers that are replaced
	// before that cannot be recognized, so Synced waits for it.
	identified bool
	listed     map[string][]string // the services of the last list; nil before the first
	services   map[string]*watched
	failures   map[string]string // the error of each query that fails now, by name
	failing    int               // the part of this source in the metric
	problems   *emit.ProblemEmitter[string]
	started    bool
	synced     bool // everything has answered
	syncedSent bool // after that, or after Options.StartTimeout
	// instances are in use. held of them are not listed by Consul. inUse and heldServices are the
	// services that have any.
	instances, held, inUse, heldServices int
	changed                              bool // since the last updateStatus
}

// watched is a service with a running watch.
type watched struct {
	serviceState
	answered bool // by Consul, or refused by an ACL
	// interrupt is that of the watcher.
	interrupt atomic.Pointer[context.CancelFunc]
	heldNow   int
	emitted   uint64 // the hash of the object that was emitted last
}

// startWatches starts the watches of the servers and of the list of services. If a token file is
// configured, it must be called only after the token was read: an anonymous query may show fewer
// services without an error.
func (r *run) startWatches(ctx context.Context) {
	r.started = true
	r.startWatch(ctx, serverService)
	r.startWatch(ctx, "")
}

// startWatch starts a goroutine that watches a service, the servers (serverService), or the list of
// services if name is "", until ctx ends. It adds a service to r.services. A panic of the watch is
// recovered, and it begins again.
func (r *run) startWatch(ctx context.Context, name string) {
	interrupt := new(atomic.Pointer[context.CancelFunc])
	if name != "" && name != serverService {
		r.services[name] = &watched{}
		interrupt = &r.services[name].interrupt
		r.watches.Add(1)
	}
	r.running.Go(func() {
		if name != "" && name != serverService {
			defer r.watches.Add(-1)
		}
		w := watcher{run: r, name: name, interrupt: interrupt}
		_ = recovery.Loop(ctx, "consul", func(ctx context.Context) error { w.watch(ctx); return nil })
	})
}

// handle applies the result of a query or a new token. It returns the events to send and the
// decision for the watcher; verify asks for a check before something is removed. A result of an
// earlier generation, or with which a new generation begins, is not applied, and returns restart. A
// failed query is only recorded (handleFailure), but the services that it lists for a peer are
// watched. An answer without servers is a failure if servers were known, unless ACLs hide them.
func (r *run) handle(ctx context.Context, x *result) (mesh.Batch, decision) {
	if x.name == tokenChanged {
		if !r.started {
			r.startWatches(ctx)
		} else {
			r.startSession(ctx)
		}
		return nil, proceed
	}
	if x.err == nil && x.name == serverService && r.identity.isImplausible(x) {
		x.err = errNoServers
	}
	if x.err != nil {
		if x.services != nil { // of a peer that is not connected
			r.handleList(ctx, x)
		}
		return r.handleFailure(x), proceed
	}
	if x.generation != r.identity.generation {
		return nil, restart
	}
	if x.regressed || r.identity.update(x.serverIDs) {
		r.beginGeneration(ctx, x)
		return nil, restart
	}
	if x.early && (x.name == "" || x.name == serverService) {
		r.startSession(ctx) // every query compares the index of now with the one before
	}
	var batch mesh.Batch
	d := proceed
	switch x.name {
	case serverService:
		r.identified = true
	case "":
		r.handleList(ctx, x)
	default:
		batch, d = r.handleService(ctx, x)
	}
	if d != verify {
		batch = r.clearFailure(batch, x.name)
	}
	return r.appendSynced(batch), d
}

// beginGeneration starts a new generation of the servers, because they lost the data of earlier
// answers, and counts and logs that. All queries begin again. Known instances stay until the new
// servers list them.
func (r *run) beginGeneration(ctx context.Context, x *result) {
	if x.generation == r.identity.generation {
		r.identity.generation++ // an index went backwards, but the servers are the same
	}
	r.metrics.Resets.Inc()
	r.options.Logger.Warn("Consul servers lost their data; keeping all known instances until they are registered again",
		"source", r.Name(), "query", x.name, "index", x.meta.LastIndex)
	r.startSession(ctx)
}

// handleList stores the list in r.listed and starts the watches of its new services, except names
// that are reserved for other queries. It removes nothing: a service is removed when the query of
// its instances shows that it has none. The running queries of services that are no longer listed
// begin again, because a streaming query does not notice that the token lost a right.
func (r *run) handleList(ctx context.Context, x *result) {
	for name := range r.listed {
		if _, listed := x.services[name]; listed || r.services[name] == nil {
			continue
		}
		if cancel := r.services[name].interrupt.Load(); cancel != nil {
			(*cancel)()
		}
	}
	r.listed = x.services
	for _, name := range slices.Sorted(maps.Keys(x.services)) {
		if name != serverService && name != "" && name != tokenChanged && r.services[name] == nil {
			r.startWatch(ctx, name)
		}
	}
}

// handleService applies the instances of a service and returns the events, also of the Problem of
// held ones, and how its watcher continues. It returns verify, and changes nothing, if an
// unverified answer would remove instances, or if an agent's copy lists held ones. If the answer is
// older than a known instance, it begins a new generation and returns restart. A service without
// instances is deleted, and its watch stops if it is not listed; that of an unknown service stops
// too.
func (r *run) handleService(ctx context.Context, x *result) (mesh.Batch, decision) {
	w := r.services[x.name]
	if w == nil {
		return nil, stop
	}
	a := answer{instances: x.instances, filtered: x.meta.ResultsFilteredByACLs, generation: x.generation}
	if !x.verified && w.removals(a) > 0 {
		return nil, verify
	}
	if !x.verified && x.streamed() && w.listsHeld(a) { // perhaps from a copy of the data that were lost
		return nil, verify
	}
	if !x.streamed() && w.isOlder(a, x.meta.LastIndex) {
		r.beginGeneration(ctx, x)
		return nil, restart
	}
	before := len(w.instances)
	held := w.serviceState.countHeld(a)
	w.apply(a)
	w.answered = true
	r.countService(before, len(w.instances), w.heldNow, held)
	w.heldNow = held
	batch := r.problems.Emit(nil, "service "+x.name, r.heldProblem(x.name, a, held))
	if len(w.instances) > 0 {
		object, err := newObject(r.namespace(), &Service{
			Name: x.name, Datacenter: r.part.datacenter, Peer: r.part.peer, Instances: w.sorted(),
		})
		if err == nil {
			r.changed = r.changed || object.Hash != w.emitted
			w.emitted = object.Hash
			batch = append(batch, mesh.Event{Source: r.Name(), Config: object})
		}
		return batch, proceed
	}
	if before > 0 {
		r.changed, w.emitted = true, 0
		batch = append(batch, mesh.Event{Op: mesh.Delete, Source: r.Name(),
			Config: &config.Config{Meta: config.Meta{Key: r.key(x.name)}}})
	}
	if _, listed := r.listed[x.name]; !listed {
		delete(r.services, x.name)
		return r.clearFailure(batch, x.name), stop
	}
	return batch, proceed
}

// namespace returns the namespace of the services: that of Consul, or "default".
func (r *run) namespace() string {
	if r.settings.Namespace != "" {
		return r.settings.Namespace
	}
	return "default"
}

// key returns the key of the object of a service; name may be "" for the source itself.
func (r *run) key(name string) config.Key {
	return config.Key{Kind: Kind, Namespace: r.namespace(), Name: r.part.objectName(name)}
}
