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
		return &struct{ Body OverviewAnswer }{a.overviewAnswer(ctx, *r)}, nil
	})
	sse.Register(a.api, huma.Operation{
		OperationID: "watch-overview", Method: http.MethodGet, Path: Prefix + "/overview/events",
		Summary: "The state of the mesh in numbers: an event for each change", Errors: errs,
		Middlewares: huma.Middlewares{keepWriter},
	}, map[string]any{"overview": OverviewAnswer{}}, a.watchOverview)
}

// overviewAnswer returns the state at this replica, and at the others that r selects.
func (a *API) overviewAnswer(ctx context.Context, r Aggregation) OverviewAnswer {
	x := OverviewAnswer{Overview: a.counted.get(a.Clock, callerOf(ctx), a.countOverview)}
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

// get returns the numbers for a caller, which it counts again after overviewInterval or, if counting is
// slow, after lookShare times its duration.
func (c *overviewCache) get(now clock.Clock, caller debug.Caller, count func(debug.Caller) Overview) Overview {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := now.Now()
	if start.Before(c.until[caller]) {
		return c.now[caller]
	}
	if c.now == nil || len(c.now) >= maxOverviews {
		c.until, c.now = map[debug.Caller]time.Time{}, map[debug.Caller]Overview{}
	}
	c.now[caller] = count(caller)
	end := now.Now()
	c.until[caller] = end.Add(max(overviewInterval, lookShare*end.Sub(start)))
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
	withheld := a.Pages.Withheld()
	for _, c := range a.Connections() {
		if !caller.CanRead(c.Proxy.Namespace) {
			continue
		}
		x.Proxies++
		switch summaryState(debug.NewSyncStatus(c, withheld[c.ID])) {
		case ProxySynced:
		case ProxyError, ProxyQuarantined:
			x.Rejecting++
		default:
			x.Behind++
		}
	}
	digest := xxhash.New()
	for _, p := range a.problemsOf(caller) {
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

// watchOverview sends an event when the state has changed, and after each heartbeat without a
// change. It returns when the client disconnects or the control plane stops.
func (a *API) watchOverview(ctx context.Context, r *WatchRequest, send sse.Sender) {
	events := newEventStream[OverviewAnswer](ctx, r.LastEvent, send)
	for {
		start := a.Clock.Now()
		if events.update(a.overviewAnswer(ctx, r.Aggregation), start) != nil {
			return
		}
		if !a.pause(ctx, max(maxInterval, lookShare*a.Clock.Now().Sub(start))) {
			return
		}
	}
}
