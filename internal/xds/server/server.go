package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are the parts and settings of a Server.
type Options struct {
	// Pusher decides what is sent.
	Pusher *push.Pusher
	// Logger is nil for none, Metrics nil for none, Clock nil for the system's.
	Logger  *slog.Logger
	Metrics push.Metrics
	Clock   push.Clock
	// MaxRequestsPerSecond bounds new streams (PILOT_MAX_REQUESTS_PER_SECOND). Those that are too many wait their turn.
	// 0: no bound.
	MaxRequestsPerSecond float64
	// SendTimeout is how long a response may take to write, besides a time for its size, before the stream is ended as
	// blocked; 0: 30 s. It also bounds how long a stream may stay without its first request.
	SendTimeout time.Duration
	// Identifier is ControlPlane.identifier in every response; empty: none.
	Identifier string
	// ClusterAliases are other names that proxies may use for a cluster.
	ClusterAliases map[mesh.ClusterID]mesh.ClusterID
}

// Server serves ADS. It refuses streams until SetReady.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	pusher      *push.Pusher
	log         *slog.Logger
	metrics     push.Metrics
	clock       push.Clock
	admission   *admission
	sendTimeout time.Duration
	slowest     int // bytes per second
	identifier  string
	aliases     map[mesh.ClusterID]mesh.ClusterID
	extensions  extensionTable

	ready    atomic.Bool
	stopping context.Context
	stop     context.CancelFunc
}

var _ discoveryv3.AggregatedDiscoveryServiceServer = (*Server)(nil)

// New makes a Server.
func New(o Options) *Server {
	s := &Server{
		pusher: o.Pusher, log: o.Logger, metrics: o.Metrics, clock: o.Clock,
		sendTimeout: o.SendTimeout, slowest: slowest, identifier: o.Identifier, aliases: o.ClusterAliases,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics == nil {
		s.metrics = push.NoMetrics{}
	}
	if s.clock == nil {
		s.clock = push.SystemClock{}
	}
	if s.sendTimeout <= 0 {
		s.sendTimeout = 30 * time.Second
	}
	s.admission = newAdmission(o.MaxRequestsPerSecond, s.clock)
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// Register adds ADS to a gRPC server, which must have been made with ServerOptions.
func (s *Server) Register(g *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s) }

// SetReady says whether streams are taken. One that comes too early is refused with Unavailable, and the proxy tries again.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// Stop ends all streams, and refuses new ones, so that grpc.Server.GracefulStop has nothing to wait for.
func (s *Server) Stop() {
	s.ready.Store(false)
	s.stop()
}

// Connections gives the state of every open stream, sorted by ID.
func (s *Server) Connections() []push.Connection { return s.pusher.Connections() }

// StreamAggregatedResources serves the state-of-the-world variant.
func (s *Server) StreamAggregatedResources(st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(st, stream.SotW)
}

// DeltaAggregatedResources serves the incremental variant.
func (s *Server) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(st, stream.Delta)
}

var (
	errNotReady = status.Error(codes.Unavailable, "the control plane is not ready: its configuration is still being read")
	errStopping = status.Error(codes.Unavailable, "the control plane is shutting down")
)

func (s *Server) serve(st grpc.ServerStream, mode stream.Mode) error {
	switch {
	case s.stopping.Err() != nil:
		return errStopping
	case !s.ready.Load():
		return errNotReady
	}
	if err := s.admission.wait(st.Context()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(st.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(errStopping) })()
	x := &session{s: s, st: st, mode: mode, ctx: ctx, end: cancel, written: make(chan error, 1)}
	return x.run()
}
