package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/node"
)

const (
	readHeaderTimeout = 10 * time.Second
	closeTimeout      = time.Second
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
	// Quit ends the agent without draining: for jobs, whose pods would else never end. Drain begins to drain, and the
	// agent goes on. Both return at once.
	Quit, Drain func()
	Log         *slog.Logger
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
	mux.Handle("GET /stats/prometheus", merger)
	mux.HandleFunc("GET "+EnvoyPath, merger.serveEnvoy)
	mux.Handle("GET /metrics", o.Metrics.handler())
	mux.HandleFunc("/quitquitquit", fromHere(o.Log, o.Quit))
	mux.HandleFunc("/drain", fromHere(o.Log, o.Drain))
	mux.HandleFunc("/app-health/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "probes of the application are not passed on yet", http.StatusNotFound)
	})
	return mux
}

// fromHere does something for a POST from this very host.
func fromHere(log *slog.Logger, do func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
			http.Error(w, "only requests from localhost are allowed", http.StatusForbidden)
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
	server := &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("status port: %w", err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if server.Shutdown(limit) != nil {
		_ = server.Close() // whoever still reads has had its time
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status port: %w", err)
	}
	return nil
}
