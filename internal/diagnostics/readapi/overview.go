package readapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// Overview is the state of the mesh at one replica, in numbers. Proxies and Problems are counted
// that the caller may see.
type Overview struct {
	Replica  string `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Version  string `json:"version" doc:"Release of the control plane."`
	Snapshot uint64 `json:"snapshot" doc:"Number of the snapshot that is served. It grows with each change."`
	Services int    `json:"services" doc:"Services that are known, of all namespaces that the caller may read."`
	Proxies  int    `json:"proxies" doc:"Connected proxies."`
	// Behind and Rejecting are disjoint.
	Behind    int `json:"behind" doc:"Proxies that have not acknowledged everything that they were sent."`
	Rejecting int `json:"rejecting" doc:"Proxies that reject a resource, or from which one is withheld because proxies reject it."`
	Errors    int `json:"errors" doc:"Problems that make traffic fail or a rule unused."`
	Warnings  int `json:"warnings" doc:"Problems of settings without the described effect."`
	// Revision identifies the list of Problems.
	Revision string `json:"revision" doc:"Changes when the list of problems does."`
}

// OverviewAnswer is the state of the mesh at each replica.
type OverviewAnswer struct {
	Overview
	Peers      []Overview   `json:"peers,omitempty" doc:"The answers of the other replicas."`
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// WatchRequest follows a document.
type WatchRequest struct {
	Aggregation
	LastEvent
}

// registerOverview adds the operations that return and follow the state of the mesh.
func (a *API) registerOverview() {
	errs := []int{http.StatusUnauthorized, http.StatusForbidden}
	huma.Register(a.api, huma.Operation{
		OperationID: "get-overview", Method: http.MethodGet, Path: Prefix + "/overview",
		Summary: "The state of the mesh in numbers", Errors: errs,
	}, func(ctx context.Context, r *Aggregation) (*struct{ Body OverviewAnswer }, error) {
		return &struct{ Body OverviewAnswer }{a.addPeers(ctx, a.ownOverview(ctx), *r)}, nil
	})
	sse.Register(a.api, huma.Operation{
		OperationID: "watch-overview", Method: http.MethodGet, Path: Prefix + "/overview/events",
		Summary: "The state of the mesh in numbers: an event for each change", Errors: errs,
		Middlewares: huma.Middlewares{keepWriter},
	}, map[string]any{"overview": OverviewAnswer{}}, a.watchOverview)
}

// ownOverview returns the state at this replica for the client of ctx.
func (a *API) ownOverview(ctx context.Context) Overview {
	return a.counted.get(a.Clock, callerOf(ctx), a.countOverview)
}

// addPeers returns own with the state at the other replicas that r selects.
func (a *API) addPeers(ctx context.Context, own Overview, r Aggregation) OverviewAnswer {
	x := OverviewAnswer{Overview: own}
	x.Peers, x.Unanswered = collectFromPeers[Overview](ctx, a, r, "/overview", url.Values{})
	return x
}

// overviewCache keeps the numbers for all clients, because it looks at each proxy.
type overviewCache struct {
	mu    sync.Mutex
	until map[debug.Caller]time.Time
	now   map[debug.Caller]Overview
}

// maxOverviews limits the callers whose numbers are kept.
const maxOverviews = 100

// get returns the numbers for a caller, which it counts again after overviewInterval or, if that is
// longer, lookShare times the CPU time of counting. Beyond maxOverviews callers it forgets the
// numbers for all others.
func (c *overviewCache) get(now clock.Clock, caller debug.Caller, count func(debug.Caller) Overview) Overview {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Now().Before(c.until[caller]) {
		return c.now[caller]
	}
	if c.now == nil || len(c.now) >= maxOverviews {
		c.until, c.now = map[debug.Caller]time.Time{}, map[debug.Caller]Overview{}
	}
	cost := cpuTime(func() { c.now[caller] = count(caller) })
	c.until[caller] = now.Now().Add(max(overviewInterval, lookShare*cost))
	return c.now[caller]
}

// overviewInterval is shorter than maxInterval, so that a client that looks every maxInterval sees
// numbers that are new.
const overviewInterval = maxInterval * 9 / 10

// countOverview returns the numbers of services, proxies and Problems at this replica that the caller
// may read. Revision changes when these Problems change.
func (a *API) countOverview(caller debug.Caller) Overview {
	s := a.Snapshot()
	x := Overview{Replica: a.Replica, Version: obs.Version, Snapshot: s.Version}
	for _, svc := range s.Services() {
		if caller.CanRead(svc.Namespace) {
			x.Services++
		}
	}
	a.countProxies(&x, caller)
	digest := xxhash.New()
	for _, p := range a.problemsOf(caller, Freshness{}) {
		if p.Severity == severityError {
			x.Errors++
		} else {
			x.Warnings++
		}
		_, _ = digest.WriteString(p.String()) // never fails
	}
	x.Revision = strconv.FormatUint(digest.Sum64(), 16)
	return x
}

// countProxies adds the numbers of the connected proxies that the caller may read. Rejecting
// includes quarantined resources; proxies that are synchronized add only to Proxies.
func (a *API) countProxies(x *Overview, caller debug.Caller) {
	withheld := a.Pages.Withheld()
	for _, s := range a.StreamStates() {
		if !caller.CanRead(s.Proxy.Namespace) {
			continue
		}
		x.Proxies++
		switch a.proxyState(s, withheld[s.ID]) {
		case ProxyError, ProxyQuarantined:
			x.Rejecting++
		case ProxyStale, ProxyNotSent:
			x.Behind++
		case ProxySynced:
		}
	}
}

// watchOverview sends an event when the state has changed, and after each heartbeat without a
// change. It returns when the client disconnects or the control plane stops. It asks the other
// replicas at most once in overviewInterval.
func (a *API) watchOverview(ctx context.Context, r *WatchRequest, _ sse.Sender) {
	events := newEventStream(ctx, "overview", r.LastEvent)
	// The answers of other replicas are for all clients of the audience, also after this one has gone.
	shared := context.WithoutCancel(ctx)
	for {
		now, own := a.Clock.Now(), a.ownOverview(ctx)
		next, err := a.overviews.entryFor(audienceOf(ctx, r.Aggregation)).update(now, own, overviewInterval,
			func() OverviewAnswer { return a.addPeers(shared, own, r.Aggregation) },
			func(answer OverviewAnswer) any { answer.Overview = own; return answer })
		if err != nil || events.update(next, now) != nil || !a.pause(ctx, maxInterval) {
			return
		}
	}
}
