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

// readHeaderTimeout is how long a client of the HTTP ports may take to send its headers.
const readHeaderTimeout = 10 * time.Second

// readiness says whether the control plane can serve, and if not, why.
type readiness struct {
	mu      sync.Mutex
	reason  string // empty: ready
	waiting []string
	reasons map[string]func() string // of feeds that can say what they wait for
	held    map[string]string        // why, by who holds it up
	synced  chan struct{}
}

func newReadiness() *readiness { return &readiness{reason: "starting", synced: make(chan struct{})} }

// why registers what tells the reason that a feed is not in sync yet; the readiness page shows it.
func (r *readiness) why(feed string, reason func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reasons == nil {
		r.reasons = map[string]func() string{}
	}
	r.reasons[feed] = reason
}

// details gives those reasons, of all feeds that are not in sync yet.
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

// waitingFor takes the feeds that are not in sync yet. Once all are, the xDS port opens.
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

// hold has somebody else than the feeds hold up readiness, until it releases it.
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

// notInSync gives the feeds that are not in sync yet.
func (r *readiness) notInSync() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// serving says that proxies can connect, or that they cannot any more, and why.
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

// debugPages are the pages under /debug.
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
			Authenticate:     s.authority.reader,
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

// handler serves what people, probes and scrapers ask for. It is the same on both ports.
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

// controlZPort opens the port of ControlZ, nil if there is to be none or the place is taken: it is a convenience.
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

// serveHTTP serves on a listener until the context ends, then lets requests finish within the duration given.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, shutdown time.Duration, log *slog.Logger) error {
	return httpserver.Serve(ctx, l, httpserver.Options{Handler: h, HeaderTimeout: readHeaderTimeout, Shutdown: shutdown, Log: log})
}
