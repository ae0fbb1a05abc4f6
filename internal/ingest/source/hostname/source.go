package hostname

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options say who resolves names, and how often.
type Options struct {
	// Lookup gives the addresses of a name. It must end with its context.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Refresh is how often a name is looked up; 0: every 30 seconds, which is the shortest that istiod lets a record live.
	Refresh time.Duration
	Log     *slog.Logger // none if nil
	Failed  func()       // is told of each lookup that fails; nobody if nil
}

const (
	defaultRefresh = 30 * time.Second
	// lookupPatience is how long a lookup may take; a failed one is tried again after firstRetry, twice that, and so on.
	lookupPatience = 5 * time.Second
	firstRetry     = 500 * time.Millisecond
	// startPatience is how long names that do not resolve hold up the start of the control plane.
	startPatience = 2 * time.Second
)

// Source follows names.
type Source struct {
	o    Options
	wake chan struct{} // has room for one

	mu     sync.Mutex
	wanted []string
	settle bool // wanted is all that there is to know before proxies are served
}

var _ source.Source = (*Source)(nil)

// New makes a source that follows no names yet.
func New(o Options) *Source {
	if o.Refresh <= 0 {
		o.Refresh = defaultRefresh
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	return &Source{o: o, wake: make(chan struct{}, 1)}
}

// Name is "names of gateways".
func (*Source) Name() string { return "names of gateways" }

// Want says which names are to be followed, in place of those before.
func (s *Source) Want(names []string) { s.want(names, false) }

// Settle is Want where nothing but these names is missing for the start: Synced is sent as soon as each is resolved, or is not to be
// resolved for the moment.
func (s *Source) Settle(names []string) { s.want(names, true) }

func (s *Source) want(names []string, settle bool) {
	s.mu.Lock()
	same := slices.Equal(s.wanted, names) && s.settle == (s.settle || settle)
	s.wanted, s.settle = names, s.settle || settle
	s.mu.Unlock()
	if same {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// Run follows names until the context ends, and returns nil then.
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
		case <-s.wake:
			batch = r.reconcile(ctx)
		case a := <-r.answers:
			batch = r.take(a)
		case <-r.deadline:
			r.late = true
		}
		if batch = append(batch, r.settled()...); len(batch) == 0 {
			continue
		}
		select {
		case out <- batch:
		case <-ctx.Done():
			return nil
		}
	}
}

// run is what one Run knows.
type run struct {
	*Source
	running  sync.WaitGroup
	answers  chan answer
	followed map[string]*followed
	deadline <-chan time.Time
	late     bool // the start waits no longer
	synced   bool
}

// followed is a name that is looked up again and again.
type followed struct {
	stop      context.CancelFunc
	addresses []string // the last good ones
	failed    bool     // the last lookup did
}

// answer is what a lookup gave.
type answer struct {
	name      string
	of        *followed
	addresses []string
	err       error
}

// reconcile follows the names that are wanted, and no others.
func (r *run) reconcile(ctx context.Context) mesh.Batch {
	r.mu.Lock()
	wanted, settle := r.wanted, r.settle
	r.mu.Unlock()
	if settle && r.deadline == nil {
		r.deadline = time.After(startPatience)
	}
	var batch mesh.Batch
	for name, f := range r.followed {
		if slices.Contains(wanted, name) {
			continue
		}
		f.stop()
		delete(r.followed, name)
		if len(f.addresses) > 0 {
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: r.Name(), Resolved: &mesh.ResolvedName{Name: name}})
		}
		if f.failed {
			batch = append(batch, r.problem(name))
		}
	}
	for _, name := range wanted {
		if r.followed[name] != nil {
			continue
		}
		following, stop := context.WithCancel(ctx)
		f := &followed{stop: stop}
		r.followed[name] = f
		r.running.Go(func() { r.follow(following, name, f) })
	}
	return batch
}

// follow looks a name up until the context ends.
func (r *run) follow(ctx context.Context, name string, f *followed) {
	retry := firstRetry
	for {
		a := answer{name: name, of: f}
		a.addresses, a.err = r.lookup(ctx, name)
		pause := r.o.Refresh
		if a.err != nil {
			pause = min(retry, pause)
			retry *= 2
		} else {
			retry = firstRetry
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

// take takes an answer in.
func (r *run) take(a answer) mesh.Batch {
	f := r.followed[a.name]
	if f != a.of {
		return nil // it is not wanted any more
	}
	was := f.failed
	if f.failed = a.err != nil; f.failed {
		r.o.Failed()
		if was {
			return nil
		}
		r.o.Log.Warn("the name of a gateway cannot be resolved", "name", a.name, "err", a.err, "lastKnown", f.addresses)
		return mesh.Batch{r.problem(a.name, reason(f.addresses, a.err))}
	}
	var batch mesh.Batch
	if was {
		batch = append(batch, r.problem(a.name))
	}
	if !slices.Equal(f.addresses, a.addresses) {
		f.addresses = a.addresses
		r.o.Log.Info("the name of a gateway is resolved", "name", a.name, "addresses", a.addresses)
		batch = append(batch, mesh.Event{Source: r.Name(), Resolved: &mesh.ResolvedName{Name: a.name, Addresses: a.addresses}})
	}
	return batch
}

// problem says what is wrong with a name, or that nothing is any more.
func (r *run) problem(name string, reasons ...string) mesh.Event {
	p := &mesh.Problems{Scope: "name " + name}
	for _, text := range reasons {
		p.List = append(p.List, config.Problem{Origin: "gateway of a network, " + name, Reason: text, Severity: config.Warning})
	}
	return mesh.Event{Source: r.Name(), Problems: p}
}

// settled gives Synced when the start is to wait no longer.
func (r *run) settled() mesh.Batch {
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
