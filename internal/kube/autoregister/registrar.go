package autoregister

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options are the parts and settings of a Registrar.
type Options struct {
	Store Store
	// Instance names this replica, and no other.
	Instance string
	// Group finds a WorkloadGroup, nil if there is none.
	Group func(namespace, name string) *config.Config
	// Entries gives all WorkloadEntries that are known, which may be somewhat behind.
	Entries func() []*config.Config
	// Grace is how long an entry stays after its proxy is gone. PILOT_WORKLOAD_ENTRY_GRACE_PERIOD; 0: 10 s.
	Grace time.Duration
	// Register has entries made for those who name a group (PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION), HealthChecks has what
	// agents say of health written (PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS).
	Register, HealthChecks bool
	// AnyIdentity has workloads registered that are not authenticated. ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY=false.
	AnyIdentity bool
	// Metrics and Log may be nil; Now and After are nil for the system's clock.
	Metrics Metrics
	Log     *slog.Logger
	Now     func() time.Time
	After   func(time.Duration) <-chan time.Time
}

// Metrics are told what becomes of entries: made, taken over, left, removed; and what failed.
type Metrics interface {
	Registered()
	Updated()
	Unregistered()
	Deleted()
	Error()
}

// Registrar keeps the entries of the workloads that are connected to this replica.
type Registrar struct {
	store                          Store
	instance                       string
	group                          func(namespace, name string) *config.Config
	entries                        func() []*config.Config
	grace                          time.Duration
	register, healthChecks, anyone bool
	metrics                        Metrics
	log                            *slog.Logger
	now                            func() time.Time
	after                          func(time.Duration) <-chan time.Time

	working   sync.WaitGroup
	mu        sync.Mutex
	ctx       context.Context // of Run; nil before and after
	workloads map[entryKey]*workload
}

type entryKey struct{ namespace, name string }

// Connection is one stream of a workload.
type Connection struct {
	w     *workload
	since time.Time
	tried chan struct{} // closed after the first try to register it

	// refused and told, that tried is closed, are guarded by the workload's lock.
	refused *Refusal
	told    bool
}

// New makes a Registrar.
func New(o Options) *Registrar {
	r := &Registrar{
		store: o.Store, instance: o.Instance, group: o.Group, entries: o.Entries, grace: o.Grace, register: o.Register, healthChecks: o.HealthChecks,
		anyone: o.AnyIdentity, metrics: o.Metrics, log: o.Log, now: o.Now, after: o.After, workloads: map[entryKey]*workload{},
	}
	if r.grace <= 0 {
		r.grace = 10 * time.Second
	}
	if r.metrics == nil {
		r.metrics = noMetrics{}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.after == nil {
		r.after = time.After
	}
	return r
}

type noMetrics struct{}

func (noMetrics) Registered()   {}
func (noMetrics) Updated()      {}
func (noMetrics) Unregistered() {}
func (noMetrics) Deleted()      {}
func (noMetrics) Error()        {}

// Run keeps entries until the context ends. What is left to do then is done by the replicas to which the workloads go, or by the
// leader.
func (r *Registrar) Run(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	r.resume(ctx, r.now())
	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.working.Wait()
}

// Wants says whether a proxy is of a workload that is kept here.
func (r *Registrar) Wants(p *mesh.Proxy) bool {
	return r.register && p.Metadata.AutoRegisterGroup != "" || r.healthChecks && p.Metadata.WorkloadEntry != ""
}

// registering is how long a stream waits for its entry. One whose entry cannot be made in time, as when the API server is away, is
// served without: it is made later.
const registering = 2 * time.Second

// Connect takes up a stream of a proxy. It gives nil if the proxy is of no workload that is kept here. The error is a [*Refusal], or
// the context's.
func (r *Registrar) Connect(ctx context.Context, p *mesh.Proxy) (*Connection, error) {
	k, err := r.entryOf(p)
	if err != nil || k.name == "" {
		return nil, err
	}
	c := r.connect(k, p)
	if c == nil {
		return nil, nil
	}
	select {
	case <-c.tried:
	case <-r.after(registering):
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
	c.w.mu.Lock()
	refused := c.refused
	c.w.mu.Unlock()
	if refused != nil {
		c.Close()
		return nil, refused
	}
	return c, nil
}

// entryOf names the entry of a proxy; no name: it has none.
func (r *Registrar) entryOf(p *mesh.Proxy) (entryKey, error) {
	k := entryKey{namespace: p.Namespace}
	switch {
	case r.register && p.Metadata.AutoRegisterGroup != "":
		name, err := entryName(p)
		if err != nil {
			return k, &Refusal{Reason: err.Error()}
		}
		k.name = name
		// Who may not be what it says must not find out what there is.
		return k, r.mayHave(p, p.Namespace, "")
	case r.healthChecks && p.Metadata.WorkloadEntry != "":
		k.name = p.Metadata.WorkloadEntry
	}
	return k, nil
}

func (r *Registrar) mayHave(p *mesh.Proxy, namespace, account string) error {
	if r.anyone {
		return nil
	}
	if err := mayHave(p, namespace, account); err != nil {
		return &Refusal{Reason: err.Error(), Denied: true}
	}
	return nil
}

func (r *Registrar) connect(k entryKey, p *mesh.Proxy) *Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		return nil
	}
	w := r.workloads[k]
	if w == nil {
		w = &workload{r: r, namespace: k.namespace, name: k.name, wake: make(chan struct{}, 1), streams: map[*Connection]struct{}{}}
		r.workloads[k] = w
		ctx := r.ctx
		defer r.working.Go(func() { w.run(ctx) })
	}
	c := &Connection{w: w, since: r.now(), tried: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[c] = struct{}{}
	w.proxy, w.since, w.gone = p, c.since, time.Time{}
	w.rouse()
	return c
}

// Close takes the stream off.
func (c *Connection) Close() {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.streams, c); len(w.streams) == 0 && w.gone.IsZero() {
		w.gone, w.health = w.r.now(), nil
		w.rouse()
	}
}

// Health takes up how the application fares.
func (c *Connection) Health(healthy bool, message string) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health = &Health{Healthy: healthy, Message: message, At: w.r.now()}
	w.rouse()
}

// Observe takes up a batch of events: the entry of a workload that is connected is seen to if somebody takes it away, or writes
// that the workload is not here.
func (r *Registrar) Observe(batch mesh.Batch) {
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
		if w != nil && (e.Op == mesh.Delete || e.Config.Annotations[controllerAnnotation] != r.instance || e.Config.Annotations[disconnectedAnnotation] != "") {
			w.rouse()
		}
	}
}

// cleanUp takes away what a workload leaves.
func (r *Registrar) cleanUp(ctx context.Context, e *Entry) error {
	switch {
	case e.Annotations[groupAnnotation] != "":
		if err := r.store.Delete(ctx, e); err != nil {
			return err
		}
		r.metrics.Deleted()
		r.log.Info("removed: its workload is gone", "namespace", e.Namespace, "name", e.Name)
	case healthIn(e.Conditions) != nil:
		return r.store.SetConditions(ctx, e, withoutHealth(e.Conditions))
	}
	return nil
}
