package autoregister

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options are the dependencies and settings of a Registrar.
type Options struct {
	Settings
	Store Store
	// Instance is the unique name of this replica.
	Instance string
	// Group returns a WorkloadGroup, or nil if there is none.
	Group func(namespace, name string) *config.Config
	// Entries returns all known WorkloadEntries; they may be slightly outdated.
	Entries func() []*config.Config
	// Metrics and Log may be nil. Clock defaults to the system's.
	Metrics Metrics
	Log     *slog.Logger
	Clock   clock.Clock
}

// Metrics counts entries that were created, claimed, marked as disconnected and deleted, and
// errors.
type Metrics interface {
	EntryRegistered()
	EntryUpdated()
	EntryUnregistered()
	EntryDeleted()
	EntryError()
}

// Registrar maintains the entries of the workloads that are connected to this replica.
type Registrar struct {
	store                                    Store
	instance                                 string
	group                                    func(namespace, name string) *config.Config
	entries                                  func() []*config.Config
	grace                                    time.Duration
	register, healthChecks, allowAnyIdentity bool
	metrics                                  Metrics
	log                                      *slog.Logger
	clock                                    clock.Clock

	workers   sync.WaitGroup
	mu        sync.Mutex
	ctx       context.Context // of Run; nil before it starts
	ended     bool            // Run has ended
	workloads map[entryKey]*workload
}

type entryKey struct{ namespace, name string }

// Connection is one stream of a workload.
type Connection struct {
	w          *workload
	since      time.Time
	registered chan struct{} // closed after the first registration attempt

	// registrationError and reported (registered is closed) are guarded by the workload's lock.
	registrationError *RegistrationError
	reported          bool
}

// New returns a Registrar, which writes nothing before Run. Grace defaults to 10 s and Clock to the
// system's; without Metrics and Log nothing is counted or logged. Store, Instance, Group and
// Entries must be set.
func New(o Options) *Registrar {
	r := &Registrar{
		store:            o.Store,
		instance:         o.Instance,
		group:            o.Group,
		entries:          o.Entries,
		grace:            o.Grace,
		register:         o.Register,
		healthChecks:     o.HealthChecks,
		allowAnyIdentity: o.AllowAnyIdentity,
		metrics:          o.Metrics,
		log:              o.Log,
		clock:            o.Clock,
		workloads:        map[entryKey]*workload{},
	}
	if r.grace <= 0 {
		r.grace = defaultGrace
	}
	if r.metrics == nil {
		r.metrics = noMetrics{}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.clock == nil {
		r.clock = clock.System{}
	}
	return r
}

type noMetrics struct{}

func (noMetrics) EntryRegistered()   {}
func (noMetrics) EntryUpdated()      {}
func (noMetrics) EntryUnregistered() {}
func (noMetrics) EntryDeleted()      {}
func (noMetrics) EntryError()        {}

// Run creates and maintains the entries of connected workloads until ctx ends, including workloads
// that connected before Run. Remaining work is left to the replicas to which the workloads
// reconnect, or to the leader. It must be called once.
func (r *Registrar) Run(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	for _, w := range r.workloads {
		r.start(ctx, w)
	}
	r.mu.Unlock()
	r.markUnreturned(ctx, r.clock.Now())
	<-ctx.Done()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.workers.Wait()
}

// start runs w.run in a goroutine, which maintains the workload's entry until ctx ends or the
// workload has disconnected and its entry is cleaned up. Registrar.Run waits for it. start must be
// called once for a workload.
func (r *Registrar) start(ctx context.Context, w *workload) {
	r.workers.Go(func() { w.run(ctx) })
}

// Handles reports whether this package maintains the proxy's entry or health: it names a group to
// register in, or an entry with health checks, and that is enabled.
func (r *Registrar) Handles(p *mesh.Proxy) bool {
	return r.register && p.Metadata.AutoRegisterGroup != "" || r.healthChecks && p.Metadata.WorkloadEntry != ""
}

// connectTimeout is how long a stream waits for its entry. If the entry cannot be written in time,
// for example because the API server is unavailable, the stream is served without it and the write
// is retried.
const connectTimeout = 2 * time.Second

// Connect registers a stream of a proxy and waits for the first registration attempt, up to
// connectTimeout; after that it succeeds without a result. It returns nil without an error if the
// proxy has no entry that this Registrar handles (entryKeyOf), or Run has ended. The error is a
// [*RegistrationError] or ctx's. Otherwise the caller must call Close when the stream ends.
func (r *Registrar) Connect(ctx context.Context, p *mesh.Proxy) (*Connection, error) {
	k, err := r.entryKeyOf(p)
	if err != nil || k.name == "" {
		return nil, err
	}
	c := r.addConnection(k, p)
	if c == nil {
		return nil, nil
	}
	select {
	case <-c.registered:
	case <-r.clock.After(connectTimeout):
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
	c.w.mu.Lock()
	refused := c.registrationError
	c.w.mu.Unlock()
	if refused != nil {
		c.Close()
		return nil, refused
	}
	return c, nil
}

// entryKeyOf returns the key of the entry that a proxy auto-registers, if r.register is set and it
// has a group. Otherwise it is the entry that the proxy names, if r.healthChecks is set. The name
// is empty if neither applies. It returns a RegistrationError if a proxy that registers has no
// address, or its identity does not permit it.
func (r *Registrar) entryKeyOf(p *mesh.Proxy) (entryKey, error) {
	k := entryKey{namespace: p.Namespace}
	switch {
	case r.register && p.Metadata.AutoRegisterGroup != "":
		name, err := entryName(p)
		if err != nil {
			return k, &RegistrationError{Reason: err.Error()}
		}
		k.name = name
		// Check the identity first, so that a foreign proxy does not learn which objects exist.
		return k, r.checkIdentity(p, p.Namespace, "")
	case r.healthChecks && p.Metadata.WorkloadEntry != "":
		k.name = p.Metadata.WorkloadEntry
	}
	return k, nil
}

// checkIdentity returns a RegistrationError unless the proxy's identity matches the namespace and
// account, or any identity is allowed.
func (r *Registrar) checkIdentity(p *mesh.Proxy, namespace, account string) error {
	if r.allowAnyIdentity {
		return nil
	}
	if err := checkAccount(p, namespace, account); err != nil {
		return &RegistrationError{Reason: err.Error(), Denied: true}
	}
	return nil
}

// addConnection adds a stream to its workload and makes p the workload's proxy, now connected. The
// workload's goroutine is woken or, if the workload is new, started, by Run if that has not started
// yet. addConnection returns nil if Run has ended. r.mu must not be held.
func (r *Registrar) addConnection(k entryKey, p *mesh.Proxy) *Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	w := r.workloads[k]
	if w == nil {
		w = &workload{
			r:         r,
			namespace: k.namespace,
			name:      k.name,
			wake:      notify.NewWake(),
			streams:   map[*Connection]struct{}{},
		}
		r.workloads[k] = w
		if ctx := r.ctx; ctx != nil {
			defer r.start(ctx, w) // after its proxy is set
		}
	}
	c := &Connection{w: w, since: r.clock.Now(), registered: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[c] = struct{}{}
	w.proxy, w.since, w.disconnectedAt = p, c.since, time.Time{}
	w.wake.Notify()
	return c
}

// Close removes the stream. After the last stream the workload is disconnected and its health
// forgotten. Further calls do nothing. The registration itself is ended later, after the grace
// period.
func (c *Connection) Close() {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.streams, c); len(w.streams) == 0 && w.disconnectedAt.IsZero() {
		w.disconnectedAt, w.health = w.r.clock.Now(), nil
		w.wake.Notify()
	}
}

// SetHealth records the health of the application with the time, and wakes the goroutine that
// writes it. It does not wait for that.
func (c *Connection) SetHealth(healthy bool, message string) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health = &Health{Healthy: healthy, Message: message, At: w.r.clock.Now()}
	w.wake.Notify()
}

// HandleEvents wakes up the workloads connected to this replica whose WorkloadEntry was deleted,
// claimed by another replica, or marked as disconnected. Other events are ignored.
func (r *Registrar) HandleEvents(batch mesh.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.workloads) == 0 {
		return
	}
	for _, e := range batch {
		if e.Config == nil || e.Config.Kind != api.WorkloadEntry {
			continue
		}
		w := r.workloads[entryKey{e.Config.Namespace, e.Config.Name}]
		if w != nil &&
			(e.Op == mesh.Delete || e.Config.Annotations[controllerAnnotation] != r.instance ||
				e.Config.Annotations[disconnectedAnnotation] != "") {
			w.wake.Notify()
		}
	}
}

// cleanUp deletes an auto-registered entry, which is counted and logged. Of an entry that a user
// created it deletes only the health condition, if there is one. Without it, an entry of a user is
// left unchanged. It returns the error of the store.
func (r *Registrar) cleanUp(ctx context.Context, e *Entry) error {
	switch {
	case e.Annotations[groupAnnotation] != "":
		if err := r.store.Delete(ctx, e); err != nil {
			return err
		}
		r.metrics.EntryDeleted()
		r.log.Info("deleted a WorkloadEntry: its workload has disconnected", "namespace", e.Namespace, "name", e.Name)
	case findHealthCondition(e.Conditions) != nil:
		return r.store.SetConditions(ctx, e, withoutHealthCondition(e.Conditions))
	}
	return nil
}
