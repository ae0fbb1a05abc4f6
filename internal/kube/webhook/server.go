package webhook

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/meshpilot/meshpilot/internal/base/httpserver"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// Bounds for all clients together.
const (
	// maxTotalBodyBytes bounds the bytes of all requests held at a time.
	maxTotalBodyBytes = 64 << 20
	// largeBodyBytes is the body size from which reviews are decoded one at a time. A pod is a few
	// kilobytes; decoding the largest bodies takes a core for tens of milliseconds.
	largeBodyBytes = 256 << 10
	// readTimeout bounds the time until a request's body has arrived.
	readTimeout = 15 * time.Second
)

// Options configure a Server.
type Options struct {
	// Recovery counts panics during reviews. If nil, panics are recovered but not counted.
	Recovery *recovery.Recorder
	// Injector and Validator review requests. If nil, their paths are not served.
	Injector  *Injector
	Validator *Validator
	// GetCertificate returns the current serving certificate.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// MinVersion is the minimum TLS version; values below TLS 1.2 are raised to it.
	MinVersion uint16
	// CipherSuites are the cipher suites of TLS 1.2. If nil, they are Go's default.
	CipherSuites []uint16
	// ModifyTLS, if not nil, is called last to change the TLS configuration.
	ModifyTLS func(*tls.Config)
	Metrics   *obs.WebhookMetrics
	Log       *slog.Logger
}

// Server serves /inject, /validate and /httpsReady over TLS.
type Server struct {
	options Options
	// bodies bounds the bytes of requests, workers the concurrent reviews. large leaves at most one
	// worker to large bodies, so that small reviews never wait behind several of them.
	bodies         *bodyBudget
	workers, large *semaphore.Weighted
}

// New returns a Server. It opens no port.
func New(o Options) *Server {
	return &Server{
		options: o, bodies: newBodyBudget(maxTotalBodyBytes),
		workers: semaphore.NewWeighted(int64(max(2, runtime.GOMAXPROCS(0)))),
		large:   semaphore.NewWeighted(1),
	}
}

// Handler returns the HTTP handler, without TLS: /inject and /validate and all paths below them,
// each if configured, and /httpsReady, which always answers 200.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	if i := s.options.Injector; i != nil {
		mux.Handle("/inject", s.injectionHandler(i))
		mux.Handle("/inject/", s.injectionHandler(i))
	}
	if v := s.options.Validator; v != nil {
		mux.Handle("/validate", s.validationHandler(v))
		mux.Handle("/validate/", s.validationHandler(v))
	}
	mux.HandleFunc("/httpsReady", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// PlainHandler returns Handler for a port that serves other requests too and has no limit for the
// time until a request's body has arrived: it limits that time as Serve does.
func (s *Server) PlainHandler() http.Handler {
	reviews := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			http.Error(w, "the time of the request cannot be limited", http.StatusInternalServerError)
			return
		}
		reviews.ServeHTTP(w, r)
	})
}

// Serve serves on l until ctx ends, waits up to shutdown for running requests, and returns nil. If
// serving ends earlier, it returns an error. The TLS version is at least 1.2, and at least
// MinVersion; ModifyTLS may change the configuration.
func (s *Server) Serve(ctx context.Context, l net.Listener, shutdown time.Duration) error {
	config := &tls.Config{
		GetCertificate: s.options.GetCertificate,
		MinVersion:     max(tls.VersionTLS12, s.options.MinVersion),
		CipherSuites:   s.options.CipherSuites,
	}
	if s.options.ModifyTLS != nil {
		s.options.ModifyTLS(config)
	}
	// The timeouts keep slow clients from blocking others: pod creation waits for these reviews.
	return httpserver.Serve(ctx, l, httpserver.Options{
		Handler:      s.Handler(),
		TLS:          config,
		BodyTimeout:  readTimeout,
		WriteTimeout: 2 * readTimeout,
		Shutdown:     shutdown,
		Log:          s.options.Log,
	})
}
