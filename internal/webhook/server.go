package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/meshpilot/meshpilot/internal/obs"
)

// Bounds of what all clients together may take.
const (
	maxConnections = 1000
	// maxBodies is how many bytes of requests are held at a time.
	maxBodies         = 64 << 20
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Options are what a server needs.
type Options struct {
	// Injector and Validator answer; nil: the paths are not served.
	Injector  *Injector
	Validator *Validator
	// GetCertificate gives the certificate, as of now.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// MinVersion is at least TLS 1.2, which 0 is.
	MinVersion   uint16
	CipherSuites []uint16
	// Narrow has the last word on how TLS is spoken; nil: nobody has.
	Narrow  func(*tls.Config)
	Metrics *obs.WebhookMetrics
	Log     *slog.Logger
}

// Server serves /inject, /validate and /httpsReady over TLS.
type Server struct {
	options Options
	// bodies bounds the bytes of requests, working how many are worked on at a time.
	bodies  *semaphore.Weighted
	working *semaphore.Weighted
}

// New makes a server. It opens nothing.
func New(o Options) *Server {
	return &Server{
		options: o, bodies: semaphore.NewWeighted(maxBodies),
		working: semaphore.NewWeighted(int64(max(2, runtime.GOMAXPROCS(0)))),
	}
}

// Handler gives what is served, without TLS.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	if i := s.options.Injector; i != nil {
		mux.Handle("/inject", s.injection(i))
		mux.Handle("/inject/", s.injection(i))
	}
	if v := s.options.Validator; v != nil {
		mux.Handle("/validate", s.validation(v))
		mux.Handle("/validate/", s.validation(v))
	}
	mux.HandleFunc("/httpsReady", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// Serve serves on a listener until the context ends, then lets requests under way finish within the time given.
func (s *Server) Serve(ctx context.Context, l net.Listener, shutdown time.Duration) error {
	config := &tls.Config{
		GetCertificate: s.options.GetCertificate, MinVersion: max(tls.VersionTLS12, s.options.MinVersion), CipherSuites: s.options.CipherSuites,
	}
	if s.options.Narrow != nil {
		s.options.Narrow(config)
	}
	h := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: 2 * readTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
		// Handshakes that fail are the client's business, and there may be many.
		ErrorLog:  slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		TLSConfig: config,
	}
	done := make(chan error, 1)
	go func() { done <- h.ServeTLS(netutil.LimitListener(l, maxConnections), "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serve webhooks on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	if err := h.Shutdown(limit); err != nil {
		_ = h.Close() // whoever still reads has had its time
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks on %s: %w", l.Addr(), err)
	}
	return nil
}
