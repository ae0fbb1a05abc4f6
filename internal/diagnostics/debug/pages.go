package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Options are what the pages show.
type Options struct {
	// Snapshot gives the current one.
	Snapshot func() *snapshot.Snapshot
	// Analysis gives what is wrong or not honoured in the current config beyond what its sources found; nil: nothing.
	Analysis func() []config.Problem
	// Conflicts gives what services and rules do not get in one View because others have it; nil: nothing.
	Conflicts func(v *view.View) []config.Problem
	// Unserved gives what a proxy of a View does not get of what objects ask, by the names that it has asked for of a type; nil: nothing.
	Unserved func(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem
	Proxies  Proxies
	// Push asks for a push to all proxies of all they have (POST adsz?push=true).
	Push func()
	// Disconnect ends a stream by its ID, and says whether there was one. nil: there is no such page
	// (UNSAFE_ENABLE_ADMIN_ENDPOINTS).
	Disconnect func(connection string) bool
	// Cluster names the cluster that the control plane runs in; Waiting gives the sources that are not in sync yet.
	Cluster mesh.ClusterID
	Waiting func() []string
	// Clusters gives the remote clusters; nil: none.
	Clusters func() []Cluster
	// ClusterSet gives the services that clusters export or import; nil: none.
	ClusterSet func() []ClusterSetService
	// Scopes gives the log scopes with their levels; nil: none.
	Scopes func() []Scope
	// Templates gives those of injection by name; nil: nothing is injected.
	Templates func() map[string]string
	// Now is the clock by which tokens are valid or not; nil: their times are not looked at.
	Now func() time.Time
	// Profile serves /debug/pprof.
	Profile bool
	Access  Access
}

// Proxies gives the connected proxies as plain values, and what they refused.
type Proxies interface {
	// Connections gives a copy of the state of every open stream, sorted by ID.
	Connections() []push.Connection
	// Nacks gives the last refusals, the newest first.
	Nacks() []push.Nack
	// Quarantine gives the resources that are kept from proxies.
	Quarantine() []push.Quarantined
}

// Pages answers questions about a running control plane.
type Pages struct {
	Options
	table []page
	mux   *http.ServeMux
}

var _ http.Handler = (*Pages)(nil)

// New makes the pages. It panics over a table with a page that nobody may see: the table is a literal in the program.
func New(o Options) *Pages {
	p := &Pages{Options: o, mux: http.NewServeMux()}
	p.table = p.all()
	for _, x := range p.table {
		if x.audience == 0 {
			panic("debug: the page " + x.name + " does not say who may see it")
		}
		p.mux.Handle("/debug/"+x.name, p.guard(x.audience, x.changes, p.serve(x)))
	}
	index := p.guard(operators, nil, p.serve(page{answer: p.index}))
	p.mux.Handle("/debug", index)
	p.mux.Handle("/debug/{$}", index)
	p.handleRetired()
	if o.Profile {
		for path, h := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			p.mux.Handle("/debug/pprof/"+path, p.guard(operators, nil, h))
		}
	}
	return p
}

// ServeHTTP answers everything under /debug.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// guard lets requests through that the audience admits: GET and HEAD to read, POST to change something. A page of another site cannot
// have a browser change anything: GET does not, and a POST whose Sec-Fetch-Site or Origin header names another site is refused. What
// istioctl asks over xDS does not come here (Page).
func (p *Pages) guard(a audience, changes func(url.Values) bool, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, refused := p.Access.caller(r)
		switch {
		case refused != 0:
			http.Error(w, "debug pages are for the machine itself and for authenticated callers", refused)
		case !a.admits(c):
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

// callerKey is where the guard notes in a request's context whom it has let in. Who asks again may be told something else: a token can
// end between two looks at it.
type callerKey struct{}

func (p *Pages) serve(x page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(callerKey{}).(Caller)
		if !ok {
			http.Error(w, "nobody has looked at who asks", http.StatusInternalServerError)
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
		_, _ = w.Write(a.body) // the client went away
	})
}

// Page gives a page's content, without HTTP. The resource is its name with a query where it takes one:
// "config_dump?proxyID=web-1.shop". An error that says what is wrong with the question is a Refusal.
func (p *Pages) Page(resource string, c Caller) ([]byte, error) {
	u, err := url.Parse(resource)
	if err != nil {
		return nil, Refusal{http.StatusBadRequest, fmt.Sprintf("debug page %q: %v", resource, err)}
	}
	name := strings.TrimPrefix(u.Path, "/debug/")
	for _, x := range p.table {
		if x.name != name {
			continue
		}
		if !x.audience.admits(c) {
			return nil, Refusal{http.StatusForbidden, fmt.Sprintf("namespace %q may not read %s", c.Namespace, name)}
		}
		a, err := x.answer(question{u.Query(), c})
		return a.body, err
	}
	return nil, missing(name)
}

// Refusal is why a question has no answer.
type Refusal struct {
	// Status is the HTTP status that says it.
	Status int
	Reason string
}

// Error gives the reason.
func (r Refusal) Error() string { return r.Reason }

// question is what is asked, and by whom.
type question struct {
	url.Values
	caller Caller
}

// answer is a page's content.
type answer struct {
	contentType string
	body        []byte
}

func text(s string) (answer, error) {
	return answer{"text/plain; charset=utf-8", []byte(s)}, nil
}

// written gives a value as JSON: on one line, or indented if the question has "pretty". An empty list should be given as
// one that is not nil: null surprises those who read it.
func written(q question, v any) (answer, error) {
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
