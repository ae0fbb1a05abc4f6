package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are the sources and settings of the pages.
type Options struct {
	// Snapshot returns the current snapshot.
	Snapshot func() *snapshot.Snapshot
	// Analysis returns the Problems of the current configuration that its sources did not find:
	// errors and settings that are not supported. If nil, there are none.
	Analysis func() []config.Problem
	// Complete returns Problems with more details, such as the positions of fields. If nil, they stay as
	// they were found.
	Complete func(list []config.Problem) []config.Problem
	// Conflicts returns the Problems of objects that have no effect in the Views of keys, for example
	// of services and rules that lose a conflict with others; sorted and without duplicates. If nil,
	// there are none.
	Conflicts func(s *snapshot.Snapshot, keys []view.Key) []config.Problem
	// Unserved returns the Problems of objects with settings that are not served to the proxy p of
	// the View. asked returns the resource names that the proxy has requested of a type. If nil,
	// there are none.
	Unserved func(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem
	// Refused returns a Problem for each client that is not served because it exceeds a limit. If nil,
	// there are none.
	Refused func() []config.Problem
	Proxies Proxies
	// Push requests a full push to all proxies (POST adsz?push=true).
	Push func()
	// Disconnect closes the stream with the given ID, and reports whether it existed. If nil, there
	// is no page for it (UNSAFE_ENABLE_ADMIN_ENDPOINTS).
	Disconnect func(connection string) bool
	// Cluster is the ID of the cluster that the control plane runs in. Waiting returns the sources
	// that are not in sync yet; if nil, all are in sync.
	Cluster mesh.ClusterID
	Waiting func() []string
	// Clusters returns the remote clusters. If nil, there are none.
	Clusters func() []Cluster
	// ClusterSet returns the services that clusters export or import. If nil, there are none.
	ClusterSet func() []ClusterSetService
	// Scopes returns the log scopes with their levels. If nil, there are none.
	Scopes func() []obs.Scope
	// Templates returns the injection templates by name. If nil, there are none.
	Templates func() map[string]string
	// Now returns the time at which tokens are validated and Problems appear. If nil, the times in
	// tokens are not checked, and Problems have no time.
	Now func() time.Time
	// Profile enables /debug/pprof (default false).
	Profile bool
	Access  Access
}

// Proxies provides the connected proxies and their rejections as plain values.
type Proxies interface {
	// Connections returns a copy of the state of every open stream, sorted by ID.
	Connections() []push.Connection
	// Connection returns the state of the stream with this ID, or false if there is none.
	Connection(id string) (push.Connection, bool)
	// StreamStates returns the part of Connections that costs little, in no particular order.
	StreamStates() []push.StreamState
	// ViewKeys returns the distinct Keys of the open streams.
	ViewKeys() []view.Key
	// Nacks returns the most recent NACKs, newest first.
	Nacks() []push.Nack
	// Quarantine returns the resources that are withheld from proxies.
	Quarantine() []push.Quarantined
	// Deliveries returns how far each resource of a list has come on the stream with this ID, or
	// nil if there is no such stream.
	Deliveries(id string, list []*resource.Resource) []stream.Delivery
}

// Pages serves the debug pages of a running control plane.
type Pages struct {
	Options
	table []page
	mux   *http.ServeMux
	seen  firstSeen
}

var _ http.Handler = (*Pages)(nil)

// New returns the pages. It panics if a page of the table has no audience, which is a programming
// error. pprof is served only with o.Profile.
func New(o Options) *Pages {
	p := &Pages{Options: o, mux: http.NewServeMux()}
	p.table = p.pageTable()
	for _, x := range p.table {
		if x.audience == 0 {
			panic("debug: the page " + x.name + " does not say who may see it")
		}
		p.mux.Handle("/debug/"+x.name, p.guardPage(x.audience, x.changes, p.servePage(x)))
	}
	index := p.guardPage(operators, nil, p.servePage(page{answer: p.indexPage}))
	p.mux.Handle("/debug", index)
	p.mux.Handle("/debug/{$}", index)
	p.handleRetired()
	if o.Profile {
		for path, h := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol,
			"trace": pprof.Trace,
		} {
			p.mux.Handle("/debug/pprof/"+path, p.guardPage(operators, nil, h))
		}
	}
	return p
}

// ServeHTTP serves all paths under /debug.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// guardPage returns a handler that passes a request, with its Caller in the context, to next only
// if the audience admits the caller. Others get the status of CallerOf, or 403. It accepts GET and
// HEAD to read, and only POST if changes is not nil and returns true for the query; other methods
// get 405. A page of another site cannot make a browser change anything: a POST whose
// Sec-Fetch-Site or Origin header names another site gets 403. Requests of istioctl over xDS do not
// pass through guardPage (see Page).
func (p *Pages) guardPage(a audience, changes func(url.Values) bool, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, refused := p.Access.CallerOf(r)
		switch {
		case refused == http.StatusServiceUnavailable:
			http.Error(w, "callers cannot be authenticated now", refused)
		case refused != 0:
			http.Error(w, "debug pages are for the machine itself and for authenticated callers", refused)
		case !a.includes(c):
			http.Error(w, fmt.Sprintf("namespace %q may not read %s", c.Namespace, r.URL.Path), http.StatusForbidden)
		case changes != nil && changes(r.URL.Query()):
			if r.Method != http.MethodPost {
				w.Header().Set("Allow", http.MethodPost)
				http.Error(w, "this changes something: use POST", http.StatusMethodNotAllowed)
				return
			}
			if err := crossOrigin.Check(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "debug pages are read with GET", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
		}
	})
}

// callerKey is the context key of the admitted Caller. Handlers must not authenticate the request a
// second time: the result may differ, because a token can expire in between.
type callerKey struct{}

// servePage returns a handler for a page. It requires a Caller in the request's context. A Refusal
// is returned with its own HTTP status, any other error with 500.
func (p *Pages) servePage(x page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(callerKey{}).(Caller)
		if !ok {
			http.Error(w, "the caller was not authenticated", http.StatusInternalServerError)
			return
		}
		a, err := x.answer(question{r.URL.Query(), c})
		if err != nil {
			status := http.StatusInternalServerError
			if refusal := (Refusal{}); errors.As(err, &refusal) {
				status = refusal.Status
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", a.contentType)
		_, _ = w.Write(a.body) // fails only if the client has disconnected
	})
}

// Page returns the content of a page without HTTP. resource is the name of the page with an
// optional query: "config_dump?proxyID=web-1.shop". A query may change state (see Read). It returns
// a Refusal if the request is invalid, the page does not exist or the caller may not read it.
func (p *Pages) Page(resource string, c Caller) ([]byte, error) {
	u, err := url.Parse(resource)
	if err != nil {
		return nil, Refusal{http.StatusBadRequest, fmt.Sprintf("debug page %q: %v", resource, err)}
	}
	x, err := p.findPage(strings.TrimPrefix(u.Path, "/debug/"), c)
	if err != nil {
		return nil, err
	}
	a, err := x.answer(question{u.Query(), c})
	return a.body, err
}

// Read returns the content of the page with the exact name, without HTTP. Like Page, it returns a
// Refusal if there is no such page or the caller may not read it. A query that changes something is
// refused, too (405).
func (p *Pages) Read(name string, query url.Values, c Caller) ([]byte, error) {
	x, err := p.findPage(name, c)
	if err != nil {
		return nil, err
	}
	if x.changes != nil && x.changes(query) {
		return nil, Refusal{http.StatusMethodNotAllowed, "this changes something: use POST below /debug"}
	}
	a, err := x.answer(question{query, c})
	return a.body, err
}

// findPage returns the page with the exact name, a pointer into the table. It returns a Refusal if
// there is none (404, or 410 for a retired page), or if the caller may not read it (403).
func (p *Pages) findPage(name string, c Caller) (*page, error) {
	i := slices.IndexFunc(p.table, func(x page) bool { return x.name == name })
	if i < 0 {
		return nil, missingPage(name)
	}
	if x := &p.table[i]; x.audience.includes(c) {
		return x, nil
	}
	return nil, Refusal{http.StatusForbidden, fmt.Sprintf("namespace %q may not read %s", c.Namespace, name)}
}

// Refusal is the error for a request that is invalid, not permitted, or for something that does not
// exist.
type Refusal struct {
	// Status is the HTTP status of the response.
	Status int
	Reason string
}

// Error returns the reason without the HTTP status.
func (r Refusal) Error() string { return r.Reason }

// question is the query of a request and its caller.
type question struct {
	url.Values
	caller Caller
}

// answer is the content of a page.
type answer struct {
	contentType string
	body        []byte
}

// textAnswer returns an answer of plain text.
func textAnswer(s string) (answer, error) {
	return answer{"text/plain; charset=utf-8", []byte(s)}, nil
}

// jsonAnswer returns an answer with v as JSON, indented if the query has "pretty". Pass an empty
// list as a non-nil slice: nil becomes null, which many clients do not expect.
func jsonAnswer(q question, v any) (answer, error) {
	var b []byte
	var err error
	if q.Has("pretty") {
		b, err = json.MarshalIndent(v, "", "    ")
	} else {
		b, err = json.Marshal(v)
	}
	if err != nil {
		return answer{}, fmt.Errorf("write the page: %w", err)
	}
	return answer{"application/json", b}, nil
}
