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

// Options are the settings of a server.
type Options struct {
	Handler http.Handler
	// TLS serves HTTPS, with HTTP/2. Default: plain HTTP/1.1.
	TLS *tls.Config
	// Protocols overrides which versions of HTTP are served.
	Protocols *http.Protocols
	// Limits bound the connections.
	Limits Limits
	// HeaderTimeout bounds the TLS handshake and, apart from it, the headers of a request. Default: 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds the time in which the body of a request must have arrived; NoTimeout: no limit. Default: 15 s.
	BodyTimeout time.Duration
	// WriteTimeout bounds the time in which a response must have been read. Default: no limit, for profiles take as long as is asked.
	WriteTimeout time.Duration
	// IdleTimeout bounds how long a connection is kept for its next request. Default: 2 minutes.
	IdleTimeout time.Duration
	// Shutdown is how long requests may take to finish once the context has ended. Default: they are ended at once.
	Shutdown time.Duration
	// Log receives what net/http complains about, as details: failed handshakes are the clients' business, and many. Default: none.
	Log *slog.Logger
}

// NoTimeout is a timeout that never comes.
const NoTimeout time.Duration = -1

const (
	// maxHeader bounds the headers of a request, in bytes. Tokens have some kilobytes.
	maxHeader = 64 << 10
	// maxStreams bounds the requests at once on one HTTP/2 connection.
	maxStreams = 100
)

// Serve serves on l until ctx ends, then lets requests finish within Options.Shutdown. It closes l. It returns nil if it ended because
// of ctx.
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
		_ = s.Close() // the remaining clients have had their time
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

func newServer(o Options) *http.Server {
	pick := func(d, usual time.Duration) time.Duration {
		if d == 0 {
			return usual
		}
		return d
	}
	header, body := pick(o.HeaderTimeout, 5*time.Second), pick(o.BodyTimeout, 15*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler: counted(bodyDeadline(body, o.Handler)), TLSConfig: o.TLS, Protocols: o.Protocols, ConnContext: connContext,
		ReadHeaderTimeout: header, WriteTimeout: o.WriteTimeout, IdleTimeout: pick(o.IdleTimeout, 2*time.Minute), MaxHeaderBytes: maxHeader,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
}

// bodyDeadline bounds how long the body of a request may take to arrive. http.Server.ReadTimeout would do more: it also cancels the
// contexts of requests that have long arrived.
func bodyDeadline(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d != NoTimeout && r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d)) // every connection of ours has deadlines
		}
		next.ServeHTTP(w, r)
	})
}
