package readapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/history"
	"github.com/meshpilot/meshpilot/internal/diagnostics/traffic"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Prefix is the path below which the API is served.
const Prefix = "/api/v1"

// Options are the sources of the API.
type Options struct {
	// Snapshot returns the current snapshot.
	Snapshot func() *snapshot.Snapshot
	// Track returns a tracker of an object in the snapshot with this number (push.TrackObject).
	Track func(object config.Key, snapshot uint64) *push.ObjectTracker
	// Uses returns the proxies of this replica that are served resources generated from an object
	// (push.ObjectUses).
	Uses func(object config.Key) []push.ObjectUse
	// Problems returns all Problems, also of the analysis and of connected proxies. If nil, the
	// snapshot's Problems are used.
	Problems func() []config.Problem
	// Connections returns the state of every open stream, and StreamStates the part of it that costs
	// little. Connection returns that of one stream, by its ID, or false if there is none.
	Connections  func() []push.Connection
	StreamStates func() []push.StreamState
	Connection   func(id string) (push.Connection, bool)
	// Changes returns the last changes that were pushed, and ChangeProgress a number that differs when
	// one has come further (push.Reports, with BehindAfter). If Changes is nil, there are none.
	Changes        func() []push.Change
	ChangeProgress func() uint64
	// Versions returns the recorded versions of an object, oldest first, and whether older ones were
	// evicted (history.Log). If nil, there are none.
	Versions func(config.Key) (versions []history.Version, evicted bool)
	// Pages knows what is withheld from proxies, and explains calls.
	Pages *debug.Pages
	// Traffic returns the rates of calls (traffic.Source). If nil, none are known.
	Traffic func() (map[traffic.Pair]traffic.Rate, error)
	// Peers finds the other replicas, whose answers are part of the answers of this replica.
	Peers Peers
	// Replica is the name of this replica in answers.
	Replica string
	Access  debug.Access
	// Preview returns the current snapshot, and the one after a change of objects, which it does not
	// publish. It takes over the Problems of decoding the objects.
	Preview func(
		ctx context.Context, changed []*config.Config, deleted []config.Key, problems []config.Problem,
	) (before, after *snapshot.Snapshot, err error)
	// Table has the generators of comparisons. Unhonoured returns a Problem for each field of an
	// object that has no effect.
	Table      *translate.Table
	Unhonoured func(*config.Config) []config.Problem
	// Registries returns the state of the registries. If nil, there are none.
	Registries func() []Registry
	// Certificates returns the certificates that this replica knows, without State and Replica. If nil,
	// there are none.
	Certificates func() []Certificate
	// Stopping ends streams of events when it is closed, so that they do not delay the shutdown. If
	// nil, they end with their requests only.
	Stopping <-chan struct{}
	// Recovery confines panics over the answer of another replica. If nil, they propagate.
	Recovery *recovery.Recorder
	// Clock is the time of events (default that of the system).
	Clock clock.Clock
}

// API serves the read API.
type API struct {
	Options
	mux *http.ServeMux
	api huma.API
	// diffing admits one comparison at a time.
	diffing      chan struct{}
	known        problemCache
	counted      overviewCache
	connectivity connectivityCache
	changes      changeCache
	keptProxies  proxyRowCache
	// overviews and changeLists are what clients follow.
	overviews   followedDocuments[Aggregation, Overview, OverviewAnswer]
	changeLists followedDocuments[ChangesRequest, uint64, Changes]
	answers     answerCache
}

var _ http.Handler = (*API)(nil)

// New returns an API that serves all operations below Prefix, each for authenticated callers only.
// If Options.Clock is nil, the system's clock is used. It starts no goroutine.
func New(o Options) *API {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	a := &API{Options: o, mux: http.NewServeMux(), diffing: make(chan struct{}, 1)}
	if o.StreamStates != nil {
		a.connectivity.withoutCertificates = func() bool { return haveNoCertificates(o.StreamStates()) }
	}
	c := huma.DefaultConfig("meshpilot", "1")
	c.Info.Description = "What a meshpilot control plane knows, what it has sent to proxies, and whether they have it."
	// Descriptions of the API are served as data; the pages of the library would load scripts from
	// other sites.
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = Prefix+"/openapi", "", ""
	c.CreateHooks = nil // no $schema in answers
	c.OnAddOperation = append(c.OnAddOperation, addUnavailable)
	a.api = humago.New(a.mux, c)
	objectErrors := []int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity,
	}
	a.api.UseMiddleware(a.authenticate)
	huma.Register(a.api, huma.Operation{
		OperationID: "get-object", Method: http.MethodGet, Path: Prefix + "/objects/{kind}/{name}",
		Summary: "The version of an object that the control plane uses, and its problems",
		Errors:  objectErrors, Middlewares: huma.Middlewares{a.readKey},
	}, a.object)
	sse.Register(a.api, huma.Operation{
		OperationID: "watch-rollout", Method: http.MethodGet, Path: Prefix + "/objects/{kind}/{name}/rollout",
		Summary: "How a version of an object reaches the proxies: an event for each change, until all of them have it",
		Errors:  objectErrors, Middlewares: huma.Middlewares{a.readKey, keepWriter},
	}, map[string]any{"rollout": Rollout{}}, a.watchRollout)
	a.registerEffect(objectErrors)
	a.registerHistory(objectErrors)
	a.registerDiff()
	a.registerRegistries()
	a.registerCertificates()
	a.registerMutualTLS()
	a.registerServices()
	a.registerCallers()
	a.registerTopology()
	a.registerTraffic()
	a.registerObjects()
	a.registerOverview()
	a.registerProblems()
	a.registerProxies()
	a.registerChanges()
	a.registerExplain()
	a.registerNacks()
	a.registerProxyStates()
	a.registerRegistryTables()
	a.registerDescriptions()
	a.registerPages()
	return a
}

// addUnavailable adds the response 503 of authenticate to an operation, in the form of its 401. It
// does nothing if the operation has none.
func addUnavailable(_ *huma.OpenAPI, op *huma.Operation) {
	if refused := op.Responses[strconv.Itoa(http.StatusUnauthorized)]; refused != nil {
		unavailable := *refused
		unavailable.Description = http.StatusText(http.StatusServiceUnavailable)
		op.Responses[strconv.Itoa(http.StatusServiceUnavailable)] = &unavailable
	}
}

// OpenAPI returns the description of the API in YAML.
func (a *API) OpenAPI() ([]byte, error) { return a.api.OpenAPI().YAML() }

// callerKey is the context key of the authenticated caller.
type callerKey struct{}

// authenticate adds the caller of a request to its context, unless ServeHTTP has added it before.
// It refuses callers that may not read anything, with the status of Access.CallerOf. It answers 403
// if callerHeader names another namespace than the caller's own.
func (a *API) authenticate(c huma.Context, next func(huma.Context)) {
	if _, known := c.Context().Value(callerKey{}).(debug.Caller); known { // by ServeHTTP
		next(keepCredentials(c))
		return
	}
	r, _ := humago.Unwrap(c)
	caller, refused := a.Access.CallerOf(r)
	if refused != 0 {
		reason := "the API is for the machine itself and for authenticated callers"
		if refused == http.StatusServiceUnavailable {
			reason = "callers cannot be authenticated now"
		}
		// the library sends the error; a client that has gone does not receive it
		_ = huma.WriteErr(a.api, c, refused, reason)
		return
	}
	if caller, admitted := narrowCaller(r, caller); admitted {
		next(keepCredentials(huma.WithValue(c, callerKey{}, caller)))
		return
	}
	_ = huma.WriteErr(a.api, c, http.StatusForbidden, "the caller may not ask for another namespace")
}

// callerOf returns the caller that authenticate has added to the context. Without one it returns a
// caller for the namespace "-", which may read nothing.
func callerOf(ctx context.Context) debug.Caller {
	caller, ok := ctx.Value(callerKey{}).(debug.Caller)
	if !ok { // a caller without any namespace reads everything
		return debug.Caller{Namespace: "-"}
	}
	return caller
}
