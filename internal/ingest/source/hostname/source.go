package hostname

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Source.
type Options struct {
	// Lookup returns the addresses of a name. It must return when its context ends. If nil, the
	// system resolver is used.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Refresh is the interval of lookups of a name (default 30 s, which is istiod's minimum TTL).
	Refresh time.Duration
	Log     *slog.Logger // if nil, nothing is logged
	Failed  func()       // called for each failed lookup, if it is set
}

const (
	defaultRefresh = 30 * time.Second
	// lookupTimeout is the timeout of a lookup. A failed one is retried after firstRetry, then
	// after twice as long, and so on.
	lookupTimeout = 5 * time.Second
	firstRetry    = 500 * time.Millisecond
	// startTimeout limits how long unresolved names delay the start of the control plane.
	startTimeout = 2 * time.Second
)

// Source resolves names periodically.
type Source struct {
	o    Options
	wake notify.Wake

	mu     sync.Mutex
	wanted []string
	settle bool // wanted is complete, and only it delays the start
}

var _ source.Source = (*Source)(nil)

// New returns a Source without names. Refresh defaults to 30 s, Lookup to the system's resolver. If
// Log is nil, nothing is logged; Failed may be nil.
func New(o Options) *Source {
	if o.Refresh <= 0 {
		o.Refresh = defaultRefresh
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	return &Source{o: o, wake: notify.NewWake()}
}

// Name returns the name of the source.
func (*Source) Name() string { return "names of gateways" }

// SetNames replaces the names to resolve, and wakes Run if they changed.
func (s *Source) SetNames(names []string) { s.setNames(names, false) }

// SetFinalNames replaces the names to resolve, like SetNames, and states that only these names
// delay the start: Synced is sent as soon as each of them is resolved or has failed.
func (s *Source) SetFinalNames(names []string) { s.setNames(names, true) }

// SettleLast returns the feeds in waiting that delay the start. This feed is left out while others
// wait, because the names to resolve are final only after that. When only this feed waits,
// SettleLast passes the result of final to SetFinalNames and returns waiting.
func (s *Source) SettleLast(waiting []string, final func() []string) []string {
	others := slices.DeleteFunc(slices.Clone(waiting), func(feed string) bool { return feed == s.Name() })
	if len(others) > 0 || len(waiting) == 0 {
		return others
	}
	s.SetFinalNames(final())
	return waiting
}

// setNames replaces the names, which it keeps, and wakes Run if they or their order changed. settle
// states that they are final, as SetFinalNames; later calls do not revoke that. The first call with
// settle wakes Run too.
func (s *Source) setNames(names []string, settle bool) {
	s.mu.Lock()
	same := slices.Equal(s.wanted, names) && s.settle == (s.settle || settle)
	s.wanted, s.settle = names, s.settle || settle
	s.mu.Unlock()
	if same {
		return
	}
	s.wake.Notify()
}

// Run resolves names until the context ends, and then returns nil. It sends the addresses of each
// name, Problems of names that cannot be resolved, and Synced once (SetFinalNames). Names are
// resolved concurrently, each again after Options.Refresh.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r := &run{Source: s, answers: make(chan answer), followed: map[string]*followed{}}
	defer r.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		var batch mesh.Batch
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake.C():
			batch = r.updateNames(ctx)
		case a := <-r.answers:
			batch = r.applyAnswer(a)
		case <-r.deadline:
			r.late = true
		}
		if batch = append(batch, r.syncedEvent()...); len(batch) == 0 {
			continue
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return nil
		}
	}
}

// run is the state of one Run.
type run struct {
	*Source
	running  sync.WaitGroup
	answers  chan answer
	followed map[string]*followed
	deadline <-chan time.Time
	late     bool // the start does not wait any longer
	synced   bool
}

// followed is a name that is resolved periodically.
type followed struct {
	stop      context.CancelFunc
	addresses []string // of the last successful lookup
	failed    bool     // the last lookup failed
}

// answer is the result of a lookup.
type answer struct {
	name      string
	of        *followed
	addresses []string
	err       error
}

// updateNames starts resolving new names and stops resolving names that are no longer wanted. It
// returns the events that delete the addresses and Problems of the unwanted names. The deadline for
// Synced begins with the first final names. It takes r.mu.
func (r *run) updateNames(ctx context.Context) mesh.Batch {
	r.mu.Lock()
	wanted, settle := r.wanted, r.settle
	r.mu.Unlock()
	if settle && r.deadline == nil {
		r.deadline = time.After(startTimeout)
	}
	var batch mesh.Batch
	for name, f := range r.followed {
		if slices.Contains(wanted, name) {
			continue
		}
		f.stop()
		delete(r.followed, name)
		if len(f.addresses) > 0 {
			batch = append(
				batch,
				mesh.Event{Op: mesh.Delete, Source: r.Name(), Resolved: &mesh.ResolvedName{Name: name}},
			)
		}
		if f.failed {
			batch = append(batch, r.problemEvent(name))
		}
	}
	for _, name := range wanted {
		if r.followed[name] != nil {
			continue
		}
		following, stop := context.WithCancel(ctx)
		f := &followed{stop: stop}
		r.followed[name] = f
		r.running.Go(func() { r.resolvePeriodically(following, name, f) })
	}
	return batch
}

// resolvePeriodically resolves a name and sends the answer to r.answers until the context ends,
// again after Options.Refresh. After failures it retries earlier, with doubling pauses.
func (r *run) resolvePeriodically(ctx context.Context, name string, f *followed) {
	backoff := retry.NewBackoff(firstRetry, r.o.Refresh)
	for {
		a := answer{name: name, of: f}
		a.addresses, a.err = r.lookUp(ctx, name)
		pause := r.o.Refresh
		if a.err != nil {
			pause = backoff.NextBackOff()
		} else {
			backoff.Reset()
		}
		select {
		case r.answers <- a:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// applyAnswer applies the result of a lookup and returns the resulting events, nil for names that
// are no longer wanted. After a failure the last addresses stay in use. Each failure is counted
// (Options.Failed), but only the first of several is logged and a Problem. A success clears the
// Problem, and emits the addresses if they changed.
func (r *run) applyAnswer(a answer) mesh.Batch {
	f := r.followed[a.name]
	if f != a.of {
		return nil // the name is no longer wanted
	}
	was := f.failed
	if f.failed = a.err != nil; f.failed {
		r.o.Failed()
		if was {
			return nil
		}
		r.o.Log.Warn("the name of a gateway cannot be resolved", "name", a.name, "err", a.err, "lastKnown", f.addresses)
		return mesh.Batch{r.problemEvent(a.name, failureReason(f.addresses, a.err))}
	}
	var batch mesh.Batch
	if was {
		batch = append(batch, r.problemEvent(a.name))
	}
	if !slices.Equal(f.addresses, a.addresses) {
		f.addresses = a.addresses
		r.o.Log.Info("the name of a gateway is resolved", "name", a.name, "addresses", a.addresses)
		batch = append(
			batch,
			mesh.Event{Source: r.Name(), Resolved: &mesh.ResolvedName{Name: a.name, Addresses: a.addresses}},
		)
	}
	return batch
}

// problemEvent returns an event that replaces the Problems of a name. Without reasons it resolves
// them.
func (r *run) problemEvent(name string, reasons ...string) mesh.Event {
	p := &mesh.Problems{Scope: "name " + name}
	for _, text := range reasons {
		p.List = append(
			p.List,
			config.Problem{Code: code.UnreadableSource, Origin: "gateway of a network, " + name, Reason: text,
				Severity: config.Warning},
		)
	}
	return mesh.Event{Source: r.Name(), Problems: p}
}

// syncedEvent returns Synced once, after the call of SetFinalNames: when every followed name has
// addresses or has failed, or startTimeout has passed (late). Otherwise it returns nil.
func (r *run) syncedEvent() mesh.Batch {
	if r.synced || r.deadline == nil {
		return nil
	}
	for _, f := range r.followed {
		if len(f.addresses) == 0 && !f.failed && !r.late {
			return nil
		}
	}
	r.synced = true
	return mesh.Batch{{Op: mesh.Synced, Source: r.Name()}}
}
