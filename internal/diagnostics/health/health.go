package health

import (
	"net/http"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// refreshInterval is the minimum age of the gauges before a scrape computes them again. istiod uses
// the same interval.
const refreshInterval = 10 * time.Second

// Options are the dependencies of Gauges.
type Options struct {
	Metrics  *obs.Metrics
	Pages    *debug.Pages
	Reports  push.Reports
	Snapshot func() *snapshot.Snapshot
	// Now returns the time. If nil, time.Now is used.
	Now func() time.Time
}

// Gauges computes the gauges. It is safe for concurrent use.
type Gauges struct {
	o Options

	mu        sync.Mutex
	sources   []*kubesource.Source
	pending   []func() int // numbers of endpoints that wait for their pods
	refreshed time.Time
	of        *snapshot.Snapshot
}

// New returns Gauges without sources. If Options.Now is nil, time.Now is used.
func New(o Options) *Gauges {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Gauges{o: o}
}

// AddSource adds a source whose health is reported.
func (g *Gauges) AddSource(f *kubesource.Source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = append(g.sources, f)
}

// AddPendingEndpoints adds a function that returns the number of endpoints that wait for their
// pods. The gauge is the sum of all.
func (g *Gauges) AddPendingEndpoints(pending func() int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, pending)
}

// Handler returns a handler that updates the gauges before it calls next.
func (g *Gauges) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.refresh(g.o.Now())
		next.ServeHTTP(w, r)
	})
}

// refresh sets all gauges: the number of classes at each call, and the others at most every
// refreshInterval. Numbers that depend on the snapshot alone are computed once per snapshot.
func (g *Gauges) refresh(now time.Time) {
	m := g.o.Metrics
	m.Classes.Set(float64(g.o.Reports.Stats().Classes))
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.refreshed) < refreshInterval {
		return
	}
	g.refreshed = now
	g.refreshSources(now)
	pending := 0
	for _, number := range g.pending {
		pending += number()
	}
	m.PendingEndpoints.Set(float64(pending))
	if s := g.o.Snapshot(); s != g.of {
		g.of = s
		x := debug.HealthOf(s)
		m.EndpointsNotReady.Set(float64(x.EndpointsNotReady))
		m.NoInstances.Set(float64(x.NoInstances))
		m.DNSWithoutEndpoints.Set(float64(x.DNSWithoutEndpoints))
		m.DuplicateDomains.Set(float64(x.DuplicateDomains))
		m.DuplicateSubsets.Set(float64(x.DuplicateSubsets))
	}
	shared := g.o.Reports.Sharing()
	m.CacheSize.Set(float64(shared.Resources))
	m.ConfigBytes.WithLabelValues("unique").Set(float64(shared.Unique))
	m.ConfigBytes.WithLabelValues("total").Set(float64(shared.Total))
	x := g.o.Pages.Trouble()
	m.NoIP.Set(float64(x.Orphans))
	m.OutboundConflicts.Set(float64(x.Conflicts))
	m.StandingRejects.Set(float64(x.Rejects))
	m.ProblemErrors.Set(float64(x.Errors))
	m.ProblemWarnings.Set(float64(x.Warnings))
}

// refreshSources updates two gauges for each source: its failing kinds, and the age of the oldest
// failure, which is 0 without one. g.mu must be held.
func (g *Gauges) refreshSources(now time.Time) {
	m := g.o.Metrics.Sources
	m.Errors.Reset()
	for _, f := range g.sources {
		age := 0.0
		for _, k := range f.Health() {
			if k.Err == nil {
				continue
			}
			m.Errors.WithLabelValues(f.Name(), string(k.Kind)).Set(1)
			age = max(age, now.Sub(k.Since).Seconds())
		}
		m.Age.WithLabelValues(f.Name()).Set(age)
	}
}
