package discovery

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// readHeaderTimeout limits how long a client of the HTTP ports may take to send its headers.
const readHeaderTimeout = 10 * time.Second

// readiness tracks whether the control plane can serve proxies and, if not, why. It is the handler
// of /ready.
type readiness struct {
	mu      sync.Mutex
	reason  string // empty: ready
	waiting []string
	reasons map[string]func() string // by feed: returns the reason why it is not in sync
	held    map[string]string        // other reasons, by component
	synced  chan struct{}
}

func newReadiness() *readiness { return &readiness{reason: "starting", synced: make(chan struct{})} }

// why registers a function that returns why a feed is not in sync yet. The readiness page shows the
// result.
func (r *readiness) why(feed string, reason func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reasons == nil {
		r.reasons = map[string]func() string{}
	}
	r.reasons[feed] = reason
}

// details returns the reasons of all feeds that are not in sync yet, one per line.
func (r *readiness) details() string {
	r.mu.Lock()
	reasons := map[string]func() string{}
	for _, feed := range r.waiting {
		if reason := r.reasons[feed]; reason != nil {
			reasons[feed] = reason
		}
	}
	r.mu.Unlock()
	text := ""
	for _, feed := range slices.Sorted(maps.Keys(reasons)) {
		if reason := reasons[feed](); reason != "" {
			text += "\n" + feed + ": " + reason
		}
	}
	return text
}

// waitingFor sets the list of feeds that are not in sync yet. An empty list closes synced, which
// opens the xDS port, so it must be passed only once.
func (r *readiness) waitingFor(feeds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = feeds
	if len(feeds) > 0 {
		r.reason = "waiting for " + strings.Join(feeds, ", ")
		return
	}
	r.reason = "the xDS port is not open yet"
	close(r.synced)
}

// hold makes readiness fail with a reason, independently of the feeds, until release is called with
// the same name.
func (r *readiness) hold(who, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = map[string]string{}
	}
	r.held[who] = reason
}

func (r *readiness) release(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, who)
}

// notInSync returns the feeds that are not in sync yet.
func (r *readiness) notInSync() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// serving sets the state of the xDS port: "" if proxies can connect, otherwise the reason why they
// cannot.
func (r *readiness) serving(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reason = reason
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	reason := r.reason
	for _, who := range slices.Sorted(maps.Keys(r.held)) {
		if reason == "" {
			reason = who + ": " + r.held[who]
		}
	}
	r.mu.Unlock()
	if reason != "" {
		http.Error(w, "not ready: "+reason+r.details(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// debugPages returns the pages under /debug.
func (s *server) debugPages() *debug.Pages {
	o := debug.Options{
		Snapshot: s.current.Load, Analysis: s.analysisProblems, Conflicts: s.table.Conflicts, Unserved: s.table.Unserved, Proxies: s.pusher, Push: s.pusher.PushAll,
		Cluster: mesh.ClusterID(s.options.ClusterID), Waiting: s.ready.notInSync, Clusters: s.remoteClusters, ClusterSet: s.exchanged, Profile: s.options.Profile,
		Now: time.Now,
		Scopes: func() []debug.Scope {
			var list []debug.Scope
			for _, x := range s.logs.Scopes() {
				list = append(list, debug.Scope(x))
			}
			return list
		},
		Access: debug.Access{
			Authenticate:     s.authority.RequestNamespace,
			SystemNamespaces: append([]string{s.options.Namespace}, s.options.Debug.AllowedNamespaces...),
			AnyNamespace:     s.options.Debug.AnyNamespace,
		},
	}
	if s.webhooks != nil && s.webhooks.injector != nil {
		o.Templates = s.webhooks.injector.Templates
	}
	if s.options.Debug.Admin {
		o.Disconnect = s.pusher.Disconnect
	}
	return debug.New(o)
}

// handler returns the handler for readiness, debug pages, metrics and version. Both HTTP ports
// serve it.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/ready", s.ready)
	mux.Handle("/debug", s.pages)
	mux.Handle("/debug/", s.pages)
	mux.Handle("/metrics", s.health.before(promhttp.HandlerFor(s.metrics.m.Registry, promhttp.HandlerOpts{})))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, obs.ReadBuild().String()) // the client went away
	})
	return serve.Handler(s.recovery, mux)
}

// controlZPort opens the ControlZ port. It returns nil if the port is disabled. It also returns
// nil, with a warning, if the address is unavailable, because ControlZ is optional.
func (s *server) controlZPort() net.Listener {
	if s.options.ControlZPort == 0 {
		return nil
	}
	address := net.JoinHostPort(s.options.ControlZHost, strconv.Itoa(int(s.options.ControlZPort)))
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.log.Warn("log levels cannot be changed while this runs: ControlZ is not served", "address", address, "err", err)
		return nil
	}
	return l
}

// serveHTTP serves on a listener until ctx ends, then waits up to shutdown for requests to finish.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, shutdown time.Duration, log *slog.Logger) error {
	return httpserver.Serve(ctx, l, httpserver.Options{Handler: h, HeaderTimeout: readHeaderTimeout, Shutdown: shutdown, Log: log})
}
