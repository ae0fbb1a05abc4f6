// Package serve recovers panics of gRPC and HTTP handlers: a panic fails its call with an internal
// error and leaves the server running.
//
// A [recovery.Recorder] goes in; interceptors for grpc.NewServer ([Interceptors]) and a middleware
// ([Handler]) come back. Invariant: the log contains the peer and the method or path, and no
// content of the call. A goroutine that a handler starts is not covered: it must recover by itself.
package serve

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// errInternal is the error for clients: the details are in the log.
var errInternal = status.Error(codes.Internal, "internal error: the call panicked; the server's log has the details")

// Interceptors returns options for a gRPC server whose handlers may panic: the panic is recorded
// and the call ends with codes.Internal. They precede interceptors of later options. If r is nil,
// there are none.
func Interceptors(r *recovery.Recorder) []grpc.ServerOption {
	if r == nil {
		return nil
	}
	unary := func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (reply any, err error) {
		defer func() {
			if v := recover(); v != nil {
				_ = r.Record(v, "grpc", "method", info.FullMethod, "peer", peerAddress(ctx)) // also logged
				reply, err = nil, errInternal
			}
		}()
		return handler(ctx, request)
	}
	stream := func(
		service any, st grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) (err error) {
		defer func() {
			if v := recover(); v != nil {
				_ = r.Record(v, "grpc", "method", info.FullMethod, "peer", peerAddress(st.Context())) // also logged
				err = errInternal
			}
		}()
		return handler(service, st)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// peerAddress returns the address of the call's peer, or "unknown".
func peerAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// Handler returns a handler that records a panic of next, and responds with status 500 if next has
// not written anything before. Otherwise it closes the connection, so that the client sees a broken
// response. http.ErrAbortHandler closes it too and is not recorded. If r is nil, it returns next.
func Handler(r *recovery.Recorder, next http.Handler) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		written := &trackingWriter{ResponseWriter: w}
		defer func() {
			v := recover()
			switch {
			case v == nil:
				return
			case v != http.ErrAbortHandler: //nolint:errorlint // the sentinel that net/http compares with
				_ = r.Record(v, "http", "method", request.Method, "path", request.URL.Path, "peer", request.RemoteAddr)
			}
			if written.begun || v == http.ErrAbortHandler { //nolint:errorlint // the same
				panic(http.ErrAbortHandler)
			}
			const message = "internal error: the request panicked; the server's log has the details"
			http.Error(w, message, http.StatusInternalServerError)
		}()
		next.ServeHTTP(written, request)
	})
}

// trackingWriter records whether a response has begun.
type trackingWriter struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader records the beginning of the response.
func (w *trackingWriter) WriteHeader(code int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

// Write records the beginning of the response.
func (w *trackingWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *trackingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
