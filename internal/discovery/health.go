package discovery

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

// refreshEvery is the minimum age of the health gauges before a scrape computes them again. istiod
// uses the same interval.
const refreshEvery = 10 * time.Second

// health computes the gauges of anomalies in configuration, sources and proxies. It computes them
// only when metrics are scraped.
type health struct {
	m        *obs.Metrics
	pages    *debug.Pages
	pusher   *push.Pusher
	snapshot func() *snapshot.Snapshot

	mu      sync.Mutex
	sources []*kubesource.Source
	waiting []func() int // of endpoints that wait for their pods
	counted time.Time
	of      *snapshot.Snapshot
}

// before returns a handler that updates the gauges before it calls next.
func (h *health) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.refresh(time.Now())
		next.ServeHTTP(w, r)
	})
}

// watch adds a source whose health is reported.
func (h *health) watch(f *kubesource.Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sources = append(h.sources, f)
}

// await adds a function that returns the number of endpoints that wait for their pods.
func (h *health) await(waiting func() int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, waiting)
}

func (h *health) refresh(now time.Time) {
	h.m.Classes.Set(float64(h.pusher.Stats().Classes))
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.counted) < refreshEvery {
		return
	}
	h.counted = now
	h.sourceHealth(now)
	pending := 0
	for _, waiting := range h.waiting {
		pending += waiting()
	}
	h.m.PendingEndpoints.Set(float64(pending))
	if s := h.snapshot(); s != h.of {
		h.of = s
		x := debug.HealthOf(s)
		h.m.EndpointsNotReady.Set(float64(x.EndpointsNotReady))
		h.m.NoInstances.Set(float64(x.NoInstances))
		h.m.DNSWithoutEndpoints.Set(float64(x.DNSWithoutEndpoints))
		h.m.DuplicateDomains.Set(float64(x.DuplicateDomains))
		h.m.DuplicateSubsets.Set(float64(x.DuplicateSubsets))
	}
	shared := h.pusher.Sharing()
	h.m.CacheSize.Set(float64(shared.Resources))
	h.m.ConfigBytes.WithLabelValues("unique").Set(float64(shared.Unique))
	h.m.ConfigBytes.WithLabelValues("total").Set(float64(shared.Total))
	x := h.pages.Trouble()
	h.m.NoIP.Set(float64(x.Orphans))
	h.m.OutboundConflicts.Set(float64(x.Conflicts))
	h.m.StandingRejects.Set(float64(x.Rejects))
	h.m.ProblemErrors.Set(float64(x.Errors))
	h.m.ProblemWarnings.Set(float64(x.Warnings))
}
