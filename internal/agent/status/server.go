package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/base/httpserver"
)

const (
	// Timeouts of a request's headers and body, and of active requests at shutdown.
	readHeaderTimeout, readTimeout = 10 * time.Second, 30 * time.Second
	closeTimeout                   = time.Second
)

// Options configure the handler.
type Options struct {
	// Envoy is nil if the agent runs no Envoy.
	Envoy     Envoy
	Readiness *Readiness
	Metrics   *Metrics
	// Workload holds the proxy's own labels in its metrics.
	Workload node.Workload
	// Applications are the application's metrics endpoints that are merged.
	Applications []environment.Application
	// MetricsLocalhostOnly refuses requests for metrics from other hosts.
	MetricsLocalhostOnly bool
	// Quit ends the agent without draining, for jobs, whose pods would never complete otherwise.
	// Drain starts draining while the agent continues. Both return at once.
	Quit, Drain func()
	// Names returns the name table of the DNS proxy. It may be nil, and may return nil.
	Names func() any
	// Probes serves the kubelet's probes and hooks of the application. It may be nil.
	Probes http.Handler
	// Profiling serves profiles of the agent at /debug/pprof/.
	Profiling bool
	Log       *slog.Logger
}

// EnvoyPath serves the proxy's metrics alone, with Istio's labels expanded. Envoy's Prometheus port
// is routed to it.
const EnvoyPath = "/stats/envoy"

// New returns the handler of the port: readiness, metrics, the name table, quit, drain, profiles
// with Profiling, and the application's probes, if there are any. The name table, quit, drain and
// profiles are for local clients only, and metrics too with MetricsLocalhostOnly.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz/ready", func(w http.ResponseWriter, r *http.Request) {
		if err := o.Readiness.Check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	merger := newMerger(o)
	mux.Handle("GET /stats/prometheus", o.guardMetrics(merger))
	mux.Handle("GET "+EnvoyPath, o.guardMetrics(http.HandlerFunc(merger.serveEnvoy)))
	mux.Handle("GET /metrics", o.guardMetrics(merger)) // where Prometheus scrapes by default
	mux.HandleFunc("GET /debug/ndsz", o.serveNames)
	mux.HandleFunc("/quitquitquit", localPost(o.Log, o.Quit))
	mux.HandleFunc("/drain", localPost(o.Log, o.Drain))
	if o.Profiling {
		for path, h := range map[string]http.HandlerFunc{
			"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol,
			"trace": pprof.Trace,
		} {
			mux.HandleFunc("/debug/pprof/"+path, localOnly(h))
		}
	}
	if o.Probes != nil {
		mux.Handle("/app-health/", o.Probes)
		mux.Handle("/app-lifecycle/", o.Probes)
	}
	return mux
}

// guardMetrics wraps a handler of metrics to respond 403 to other hosts if MetricsLocalhostOnly is
// set. Otherwise it returns the handler unchanged.
func (o Options) guardMetrics(h http.Handler) http.Handler {
	if !o.MetricsLocalhostOnly {
		return h
	}
	return localOnly(h.ServeHTTP)
}

// serveNames serves the name table of the DNS proxy to local clients only, because it lists the
// hosts of the mesh. Without one it responds 404. Other clients get 403.
func (o Options) serveNames(w http.ResponseWriter, r *http.Request) {
	if !requireLocalhost(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var names any
	if o.Names != nil {
		names = o.Names()
	}
	if names == nil {
		w.WriteHeader(http.StatusNotFound)
		names = struct{}{}
	}
	if err := json.NewEncoder(w).Encode(names); err != nil {
		o.Log.Debug("cannot send the name table", "error", err) // the client has disconnected
	}
}

// requireLocalhost reports whether a request comes from a loopback address. If not, it has
// responded with 403.
func requireLocalhost(w http.ResponseWriter, r *http.Request) bool {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
		http.Error(w, "only requests from localhost are allowed", http.StatusForbidden)
		return false
	}
	return true
}

// localOnly returns a handler that calls h for local clients and responds 403 to others.
func localOnly(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if requireLocalhost(w, r) {
			h(w, r)
		}
	}
}

// localPost returns a handler that logs and answers a POST from this host, and then calls do. It
// responds 403 to other hosts and 405 to other methods, and does not call do.
func localPost(log *slog.Logger, do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !requireLocalhost(w, r) {
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "want POST", http.StatusMethodNotAllowed)
			return
		}
		log.Info("request to " + r.URL.Path)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("OK")) // fails if the client has disconnected
		do()
	}
}

// Serve serves on the listener until ctx ends, and closes it. Active requests have closeTimeout to
// finish. It returns nil if ctx has ended, and an error if serving ends earlier.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	err := httpserver.Serve(ctx, l, httpserver.Options{
		Handler: h, HeaderTimeout: readHeaderTimeout, BodyTimeout: readTimeout, Shutdown: closeTimeout,
	})
	if err != nil {
		return fmt.Errorf("status port: %w", err)
	}
	return nil
}
