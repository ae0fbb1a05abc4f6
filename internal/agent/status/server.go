package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/base/httpserver"
)

const (
	// readHeaderTimeout and readTimeout bound how long the headers and the body of a request may take.
	readHeaderTimeout, readTimeout = 10 * time.Second, 30 * time.Second
	closeTimeout                   = time.Second
)

// Options are what the port serves.
type Options struct {
	// Envoy is nil where the agent runs none.
	Envoy     Envoy
	Readiness *Readiness
	Metrics   *Metrics
	// Workload is what the proxy's metrics say of the workload beside it.
	Workload node.Workload
	// Application is where the application serves metrics; nil: nowhere, or they are not to be merged.
	Application *environment.Application
	// ForLocalhost has metrics told to nobody but this host.
	ForLocalhost bool
	// Quit ends the agent without draining: for jobs, whose pods would else never end. Drain begins to drain, and the
	// agent goes on. Both return at once.
	Quit, Drain func()
	// Names gives what the DNS proxy answers from; nil if there is nothing.
	Names func() any
	// Probes answers kubelet's probes and hooks of the application.
	Probes http.Handler
	Log    *slog.Logger
}

// EnvoyPath is where the proxy's metrics are without those of the agent and the application. The proxy itself serves them at
// its Prometheus port from here, with the names that Istio's users know.
const EnvoyPath = "/stats/envoy"

// New makes the handler of the port.
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
	mux.Handle("GET /stats/prometheus", o.metrics(merger))
	mux.Handle("GET "+EnvoyPath, o.metrics(http.HandlerFunc(merger.serveEnvoy)))
	mux.Handle("GET /metrics", o.metrics(o.Metrics.handler()))
	mux.HandleFunc("GET /debug/ndsz", o.serveNames)
	mux.HandleFunc("/quitquitquit", fromHere(o.Log, o.Quit))
	mux.HandleFunc("/drain", fromHere(o.Log, o.Drain))
	if o.Probes != nil {
		mux.Handle("/app-health/", o.Probes)
		mux.Handle("/app-lifecycle/", o.Probes)
	}
	return mux
}

// metrics guards a handler of metrics.
func (o Options) metrics(h http.Handler) http.Handler {
	if !o.ForLocalhost {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHere(w, r) {
			h.ServeHTTP(w, r)
		}
	})
}

// serveNames shows what the DNS proxy answers from. Which hosts there are is nobody's business but this one's.
func (o Options) serveNames(w http.ResponseWriter, r *http.Request) {
	if !isHere(w, r) {
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
		o.Log.Debug("showing names", "error", err) // the client went away
	}
}

// isHere says whether a request comes from this very host, and answers it if it does not.
func isHere(w http.ResponseWriter, r *http.Request) bool {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
		http.Error(w, "only requests from localhost are allowed", http.StatusForbidden)
		return false
	}
	return true
}

// fromHere does something for a POST from this very host.
func fromHere(log *slog.Logger, do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isHere(w, r) {
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "want POST", http.StatusMethodNotAllowed)
			return
		}
		log.Info("asked by " + r.URL.Path)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("OK")) // the client went away
		do()
	}
}

// Serve serves on the listener until the context ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	err := httpserver.Serve(ctx, l, httpserver.Options{
		Handler: h, HeaderTimeout: readHeaderTimeout, BodyTimeout: readTimeout, Shutdown: closeTimeout,
	})
	if err != nil {
		return fmt.Errorf("status port: %w", err)
	}
	return nil
}
