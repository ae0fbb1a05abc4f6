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

// Bounds of what all clients together may take.
const (
	// maxBodies is how many bytes of requests are held at a time.
	maxBodies = 64 << 20
	// readTimeout is how long the body of a request may take to arrive.
	readTimeout = 15 * time.Second
)

// Options are what a server needs.
type Options struct {
	// Recovery counts panics over reviews. If nil, they are answered all the same.
	Recovery *recovery.Recorder
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
	bodies  *bodyBudget
	working *semaphore.Weighted
}

// New makes a server. It opens nothing.
func New(o Options) *Server {
	return &Server{
		options: o, bodies: newBodyBudget(maxBodies),
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
	// Whoever can connect to this port can keep nobody else out: the API server's reviews are what Pods wait for.
	return httpserver.Serve(ctx, l, httpserver.Options{
		Handler: s.Handler(), TLS: config, BodyTimeout: readTimeout, WriteTimeout: 2 * readTimeout, Shutdown: shutdown, Log: s.options.Log,
	})
}
