package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Options configure a server.
type Options struct {
	Handler http.Handler
	// TLS enables HTTPS with HTTP/2. If nil, plain HTTP/1.1 is served.
	TLS *tls.Config
	// Protocols overrides the HTTP versions that are served.
	Protocols *http.Protocols
	// Limits bound the connections.
	Limits Limits
	// HeaderTimeout bounds the TLS handshake and, separately, receiving the headers of a request
	// (default 5 s).
	HeaderTimeout time.Duration
	// BodyTimeout bounds receiving the body of a request (default 15 s). NoTimeout disables it.
	BodyTimeout time.Duration
	// WriteTimeout bounds sending a response (default none, because profiles take as long as
	// requested).
	WriteTimeout time.Duration
	// IdleTimeout bounds how long an idle connection is kept open (default 2 minutes).
	IdleTimeout time.Duration
	// Shutdown is how long active requests may take to finish once the context has ended (default
	// 0).
	Shutdown time.Duration
	// Log receives net/http's errors at level debug: failed handshakes are frequent and caused by
	// clients. If nil, they are dropped.
	Log *slog.Logger
}

// NoTimeout disables a timeout.
const NoTimeout time.Duration = -1

const (
	// maxHeader bounds the headers of a request, in bytes. Tokens have some kilobytes.
	maxHeader = 64 << 10
	// maxStreams bounds the concurrent requests on one HTTP/2 connection.
	maxStreams = 100
)

// Serve serves on l until ctx ends, then lets active requests finish within Options.Shutdown and
// aborts the others. It closes l. It returns nil if it ended because of ctx, and an error if
// serving ends earlier. o.Handler must be set.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s := newServer(o)
	limited := limitedListener{l, newLimiter(o.Limits, time.Now)}
	done := make(chan error, 1)
	go func() {
		if o.TLS != nil {
			done <- s.ServeTLS(limited, "", "")
		} else {
			done <- s.Serve(limited)
		}
	}()
	select {
	case err := <-done:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Shutdown)
	defer cancel()
	if err := s.Shutdown(limit); err != nil {
		_ = s.Close() // the shutdown timeout has passed
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// newServer returns the server of the options, with defaults for timeouts that are zero, except
// WriteTimeout. They are 5 s for headers, 15 s for bodies and 2 min for idle connections.
func newServer(o Options) *http.Server {
	withDefault := func(d, usual time.Duration) time.Duration {
		if d == 0 {
			return usual
		}
		return d
	}
	header, body := withDefault(o.HeaderTimeout, 5*time.Second), withDefault(o.BodyTimeout, 15*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler: trackRequests(bodyDeadline(body, o.Handler)), TLSConfig: o.TLS, Protocols: o.Protocols,
		ConnContext: connContext, ReadHeaderTimeout: header, WriteTimeout: o.WriteTimeout,
		IdleTimeout: withDefault(o.IdleTimeout, 2*time.Minute), MaxHeaderBytes: maxHeader,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}

// bodyDeadline wraps a handler to bound how long a request's body may take to arrive, unless d is
// NoTimeout. http.Server.ReadTimeout is not used, because it also cancels the contexts of requests
// that have arrived completely.
func bodyDeadline(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d != NoTimeout && r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d)) // supported by all our connections
		}
		next.ServeHTTP(w, r)
	})
}
