package sds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	recoveryserve "github.com/meshpilot/meshpilot/internal/base/recovery/serve"
)

// maxNames bounds the names on one stream. Envoy opens a stream per name (SotW) or one for all
// (delta).
const maxNames = 1000

// Options configure a Server.
type Options struct {
	Store *secret.Store
	// WatchIfFile is called for each name that a stream subscribes to. It starts reading the files
	// of the name if it is a file secret.
	WatchIfFile func(ctx context.Context, name string) bool
	// OnPush is called for each secret sent, OnNACK for each name subscribed by a stream that
	// rejects a response. Either may be nil.
	OnPush, OnNACK func(name string)
	Log            *slog.Logger
	// Recovery confines a panic to the stream that causes it. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Server is an SDS server for the secrets of a store.
type Server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	o Options
}

var _ secretv3.SecretDiscoveryServiceServer = (*Server)(nil)

// New returns a Server, which Serve starts.
func New(o Options) *Server { return &Server{o: o} }

// Serve accepts connections on the listener until ctx ends, and closes it. It returns nil when ctx
// has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		append(recoveryserve.Interceptors(s.o.Recovery), grpc.MaxConcurrentStreams(maxNames))...)
	secretv3.RegisterSecretDiscoveryServiceServer(server, s)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve secrets: %w", err)
	}
	return nil
}

// FetchSecrets returns Unimplemented: Envoy does not poll for secrets.
func (s *Server) FetchSecrets(context.Context, *discoveryv3.DiscoveryRequest) (*discoveryv3.DiscoveryResponse, error) {
	return nil, status.Error(codes.Unimplemented, "secrets are served on streams only")
}

// stream is a gRPC stream of either protocol with requests Q and responses R.
type stream[Q, R any] interface {
	Context() context.Context
	Recv() (Q, error)
	Send(R) error
}

// protocol holds what differs between the SotW and the delta protocol.
type protocol[Q, R any] struct {
	// handleRequest updates the subscription by a request. nonce is the nonce of the latest
	// response, "" before the first.
	handleRequest func(ctx context.Context, have subscription, request Q, nonce string) error
	// newResponse builds a response with at least one secret.
	newResponse func(secrets []*discoveryv3.Resource, nonce string) R
}

// serveStream sends the subscribed secrets on a stream, and each of them again when it changes. A
// secret that does not exist yet is sent once it does, and a rejected response does not end the
// stream. It returns nil when the client closes the stream or ctx ends, and an error for invalid
// requests and failures.
func serveStream[Q, R any](s *Server, st stream[Q, R], f protocol[Q, R]) error {
	ctx := st.Context()
	requests, failed := receiveRequests(ctx, st.Recv, s.o.Recovery)
	have := subscription{}
	nonce, number := "", 0
	for {
		changed := s.o.Store.Changed() // before reading the secrets: a change in between ends the wait below
		secrets, err := s.collectChanged(have)
		if err != nil {
			return err
		}
		if len(secrets) > 0 {
			number++
			nonce = strconv.Itoa(number)
			if err := st.Send(f.newResponse(secrets, nonce)); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
			if err := f.handleRequest(ctx, have, r, nonce); err != nil {
				return err
			}
		case <-changed:
		case err := <-failed:
			return streamError(err)
		case <-ctx.Done():
			return nil
		}
	}
}

// receiveRequests calls recv in a goroutine until it fails or ctx ends, and sends the requests to
// the first channel. The error of recv, or of its panic, is sent to the second one. Neither is
// closed.
func receiveRequests[R any](
	ctx context.Context, recv func() (R, error), recorder *recovery.Recorder,
) (<-chan R, <-chan error) {
	requests, failed := make(chan R), make(chan error, 1)
	go func() {
		for {
			var r R
			err := recorder.Call("sds", func() (err error) { r, err = recv(); return err }, "doing", "receive")
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return requests, failed
}

// streamError returns the error that ends a stream, or nil for io.EOF, with which the client closes
// it, and context.Canceled.
func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// subscription maps the subscribed names of a stream to the version last sent, "" if none was sent
// yet.
type subscription map[string]string

// sortedNames returns the subscribed names, sorted.
func (have subscription) sortedNames() []string { return slices.Sorted(maps.Keys(have)) }

// subscribe adds a name to the subscription of a stream, and starts to read its files if it is a
// file secret (WatchIfFile). If the stream already subscribes to the name, it is marked as not
// sent, so that its secret is sent again. A new name on a stream with maxNames names is refused
// with ResourceExhausted.
func (s *Server) subscribe(ctx context.Context, have subscription, name string) error {
	if _, there := have[name]; !there && len(have) == maxNames {
		return status.Errorf(codes.ResourceExhausted, "more than %d secrets on a stream", maxNames)
	}
	have[name] = ""
	s.o.WatchIfFile(ctx, name)
	return nil
}

// collectChanged returns the subscribed secrets, sorted by name, whose version differs from the one
// last sent. It records them as sent and calls OnPush, if set, for each. Names without a secret are
// skipped. If a later one fails, the earlier ones stay recorded.
func (s *Server) collectChanged(have subscription) ([]*discoveryv3.Resource, error) {
	var list []*discoveryv3.Resource
	for _, name := range have.sortedNames() {
		v, ok := s.o.Store.Get(name)
		if !ok {
			continue
		}
		version := versionHash(v.Secret)
		if have[name] == version {
			continue
		}
		r, err := newResource(name, version, v.Secret)
		if err != nil {
			return nil, err
		}
		have[name] = version
		list = append(list, r)
		if s.o.OnPush != nil {
			s.o.OnPush(name)
		}
		s.o.Log.Debug("secret sent", "name", name)
	}
	return list, nil
}

// recordNACK logs that Envoy rejected a response. It calls OnNACK, if set, for every name of the
// subscription, because the request does not name the rejected secret.
func (s *Server) recordNACK(have subscription, message string) {
	names := have.sortedNames()
	if s.o.OnNACK != nil {
		for _, name := range names {
			s.o.OnNACK(name)
		}
	}
	s.o.Log.Error("envoy rejected a secret", "subscribed", names, "error", message)
}
