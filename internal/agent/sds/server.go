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

// maxNames bounds the names of one stream. Envoy has a stream for each (SotW), or one for all.
const maxNames = 1000

// Options are what a Server serves.
type Options struct {
	Store *secret.Store
	// Want has the files of a name read, if it is a name of files.
	Want func(ctx context.Context, name string) bool
	// Pushed and Failed are told of secrets that were sent, and of those that Envoy refused; nil: nobody is told.
	Pushed, Failed func(name string)
	Log            *slog.Logger
	// Recovery confines a panic to the stream that causes it. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Server serves secrets.
type Server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	o Options
}

var _ secretv3.SecretDiscoveryServiceServer = (*Server)(nil)

// New makes a Server.
func New(o Options) *Server { return &Server{o: o} }

// Serve serves on the listener, which it closes, until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(append(recoveryserve.Interceptors(s.o.Recovery), grpc.MaxConcurrentStreams(maxNames))...)
	secretv3.RegisterSecretDiscoveryServiceServer(server, s)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve secrets: %w", err)
	}
	return nil
}

// FetchSecrets is not served: nobody asks for secrets by polling.
func (s *Server) FetchSecrets(context.Context, *discoveryv3.DiscoveryRequest) (*discoveryv3.DiscoveryResponse, error) {
	return nil, status.Error(codes.Unimplemented, "secrets are served as streams")
}

// stream is what a gRPC stream of either form can do: Q are its requests, R its responses.
type stream[Q, R any] interface {
	Context() context.Context
	Recv() (Q, error)
	Send(R) error
}

// form is what the two forms of a stream do each in its own way.
type form[Q, R any] struct {
	// take notes what a request says; nonce is that of the latest response, "" before the first.
	take func(ctx context.Context, have subscription, request Q, nonce string) error
	// response makes a response of secrets.
	response func(secrets []*discoveryv3.Resource, nonce string) R
}

// serve answers a stream until its client is gone: with the secrets that it asks for, and with each of them that changes.
func serve[Q, R any](s *Server, st stream[Q, R], f form[Q, R]) error {
	ctx := st.Context()
	requests, failed := received(ctx, st.Recv, s.o.Recovery)
	have := subscription{}
	nonce, number := "", 0
	for {
		changed := s.o.Store.Changed() // before what is due is looked up: a change in between is seen in the next round
		secrets, err := s.due(have)
		if err != nil {
			return err
		}
		if len(secrets) > 0 {
			number++
			nonce = strconv.Itoa(number)
			if err := st.Send(f.response(secrets, nonce)); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
			if err := f.take(ctx, have, r, nonce); err != nil {
				return err
			}
		case <-changed:
		case err := <-failed:
			return ended(err)
		case <-ctx.Done():
			return nil
		}
	}
}

// received turns a stream's Recv into a channel, for as long as the context lasts. The error is the last thing that comes.
func received[R any](ctx context.Context, recv func() (R, error), recorder *recovery.Recorder) (<-chan R, <-chan error) {
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

// ended is how a stream ends whose client is gone.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// subscription is what a stream has asked for: the version sent of each name, "" if none was yet.
type subscription map[string]string

func (have subscription) names() []string { return slices.Sorted(maps.Keys(have)) }

func (s *Server) add(ctx context.Context, have subscription, name string) error {
	if _, there := have[name]; !there && len(have) == maxNames {
		return status.Errorf(codes.ResourceExhausted, "more than %d secrets on a stream", maxNames)
	}
	have[name] = ""
	s.o.Want(ctx, name)
	return nil
}

// due gives the secrets of the subscription that are others than those sent, and notes them as sent.
func (s *Server) due(have subscription) ([]*discoveryv3.Resource, error) {
	var list []*discoveryv3.Resource
	for _, name := range have.names() {
		v, ok := s.o.Store.Get(name)
		if !ok {
			continue
		}
		version := versionOf(v.Secret)
		if have[name] == version {
			continue
		}
		r, err := resourceOf(name, version, v.Secret)
		if err != nil {
			return nil, err
		}
		have[name] = version
		list = append(list, r)
		if s.o.Pushed != nil {
			s.o.Pushed(name)
		}
		s.o.Log.Debug("secret sent", "name", name)
	}
	return list, nil
}

// refused notes that Envoy would not take what it was sent.
func (s *Server) refused(have subscription, message string) {
	names := have.names()
	if s.o.Failed != nil {
		for _, name := range names {
			s.o.Failed(name)
		}
	}
	s.o.Log.Error("envoy refused a secret", "of", names, "error", message)
}
