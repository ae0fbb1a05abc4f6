// Package serve recovers panics of gRPC and HTTP handlers: one costs its call and is answered with an internal error.
//
// In: a [recovery.Recorder]. Out: interceptors for grpc.NewServer ([Interceptors]), and a middleware ([Handler]). Invariant:
// the peer, the method or path, and nothing of the call's content are logged. A goroutine that a handler starts is not
// covered: the handler recovers it itself.
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

// errInternal is what a client is sent: the details are in the log.
var errInternal = status.Error(codes.Internal, "internal error: the call panicked; the server's log has the details")

// Interceptors returns the options of a gRPC server whose handlers may panic: the call ends with codes.Internal. They come
// before interceptors that are given later. If r is nil there are none.
func Interceptors(r *recovery.Recorder) []grpc.ServerOption {
	if r == nil {
		return nil
	}
	unary := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
		defer func() {
			if v := recover(); v != nil {
				_ = r.Record(v, "grpc", "method", info.FullMethod, "peer", peerOf(ctx)) // it is logged
				reply, err = nil, errInternal
			}
		}()
		return handler(ctx, request)
	}
	stream := func(service any, st grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() {
			if v := recover(); v != nil {
				_ = r.Record(v, "grpc", "method", info.FullMethod, "peer", peerOf(st.Context())) // it is logged
				err = errInternal
			}
		}()
		return handler(service, st)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// Handler returns a handler that answers with status 500 if next panics before it has written anything, and else closes the
// connection, so that the client sees a broken response. If r is nil it is next.
func Handler(r *recovery.Recorder, next http.Handler) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		written := &writer{ResponseWriter: w}
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
			http.Error(w, "internal error: the request panicked; the server's log has the details", http.StatusInternalServerError)
		}()
		next.ServeHTTP(written, request)
	})
}

// writer notes whether a response was begun.
type writer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader is http.ResponseWriter's.
func (w *writer) WriteHeader(code int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

// Write is http.ResponseWriter's.
func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
