package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are the dependencies and settings of a Server.
type Options struct {
	// Pusher decides which responses are sent.
	Pusher *push.Pusher
	// If Logger or Metrics is nil, nothing is logged or measured. If Clock is nil, the system clock
	// is used.
	Logger  *slog.Logger
	Metrics push.Metrics
	Clock   clock.Clock
	// Openings bounds how many streams are opened at the same time, separately for plain text and
	// TLS (default: four for each CPU). Further streams wait for a place; see admission.go.
	Openings int
	// MaxRequestsPerSecond bounds the rate of first requests, separately for plain text and TLS
	// (default: no bound; PILOT_MAX_REQUESTS_PER_SECOND). Streams without a request are not
	// included.
	MaxRequestsPerSecond float64
	// Writers bounds how many responses are composed and written at the same time; 0 means no bound
	// (PILOT_PUSH_THROTTLE).
	Writers int
	// SendTimeout is how long a proxy may leave a response unread before its stream is ended as
	// blocked (default 30 s). A proxy that reads at least 4 KiB per second has 3 minutes.
	// SendTimeout also bounds how long a stream may last without its first request.
	SendTimeout time.Duration
	// Rebalance configures how connections are moved to other replicas over time.
	Rebalance Rebalance
	// Identifier is ControlPlane.identifier in every response. If empty, the field is omitted.
	Identifier string
	// ClusterAliases maps alternative names that proxies may use for a cluster to its name.
	ClusterAliases map[mesh.ClusterID]mesh.ClusterID
	// Generators serve clients that are not proxies. The key is GENERATOR of their node metadata.
	Generators map[string]Handler
	// Authenticate returns the identities of a stream's client from the context of the call. If
	// nil, they come from the client's certificate, if there is one. The error is a gRPC status,
	// with which the stream ends. It is called before anything of the stream is read. Cluster is
	// the ID of the cluster whose API server authenticated the identities, or "" if none did.
	Authenticate func(ctx context.Context) (identities []string, cluster string, err error)
	// Admit returns an error if a client may not be the proxy that its node describes. It records
	// the proved facts in the proxy. If nil, every client is admitted. The error is a gRPC status.
	Admit func(p *mesh.Proxy, h Hello) error
	// Keys returns whether a proxy may be sent private keys of its namespace (mesh.Proxy.Keys). If
	// nil, no proxy may.
	Keys func(p *mesh.Proxy, h Hello) bool
	// Workloads registers workloads when their proxy connects. If nil, none are registered.
	// Registration without TLS is refused unless RegisterPlaintext is set.
	Workloads         Workloads
	RegisterPlaintext bool
	// Debug answers requests about the control plane itself. If nil, they are refused.
	Debug Debug
	// Recovery confines a panic over one stream to it. If nil, panics are not recovered.
	Recovery *recovery.Recorder
	// Refused records the clients that exceed a limit. If nil, they are not recorded.
	Refused *RefusedClients
}

// Server serves ADS. It refuses streams until SetReady.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	pusher      *push.Pusher
	log         *slog.Logger
	metrics     push.Metrics
	clock       clock.Clock
	plaintext   *admission // of streams without TLS
	secure      *admission
	writers     *semaphore.Weighted // if nil, there is no bound
	envelopes   sync.Pool           // of *[]byte, see writer.go
	sendTimeout time.Duration
	maxSendTime time.Duration
	rebalance   Rebalance
	identifier  string
	aliases     map[mesh.ClusterID]mesh.ClusterID
	generators  map[string]Handler
	debug       Debug
	workloads   Workloads
	// registerPlaintext registers workloads that connect without TLS.
	registerPlaintext bool
	authenticate      func(context.Context) ([]string, string, error)
	admit             func(*mesh.Proxy, Hello) error
	keys              func(*mesh.Proxy, Hello) bool
	extensions        extensionTable
	recovery          *recovery.Recorder
	refused           *RefusedClients
	panics            panicBackoff
	ready             atomic.Bool

	mu       sync.Mutex
	stopping bool
	sessions map[*session]struct{}
}

var _ discoveryv3.AggregatedDiscoveryServiceServer = (*Server)(nil)

// New returns a Server that refuses streams until SetReady. If nil, Logger discards, Metrics
// records nothing, and Clock is the system's; SendTimeout defaults to 30 s. Without Writers, their
// number is not limited; without Authenticate, identities are the URIs of verified client
// certificates.
func New(o Options) *Server {
	s := &Server{
		pusher:            o.Pusher,
		log:               o.Logger,
		metrics:           o.Metrics,
		clock:             o.Clock,
		sendTimeout:       o.SendTimeout,
		maxSendTime:       maxSendTime,
		rebalance:         o.Rebalance,
		identifier:        o.Identifier,
		aliases:           o.ClusterAliases,
		generators:        o.Generators,
		debug:             o.Debug,
		workloads:         o.Workloads,
		registerPlaintext: o.RegisterPlaintext,
		authenticate:      o.Authenticate,
		admit:             o.Admit,
		keys:              o.Keys,
		recovery:          o.Recovery,
		refused:           o.Refused,
		sessions:          map[*session]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics == nil {
		s.metrics = push.NoMetrics{}
	}
	if s.clock == nil {
		s.clock = clock.System{}
	}
	if s.sendTimeout <= 0 {
		s.sendTimeout = 30 * time.Second
	}
	if o.Writers > 0 {
		s.writers = semaphore.NewWeighted(int64(o.Writers))
	}
	s.plaintext = newAdmission(o.Openings, o.MaxRequestsPerSecond, s.clock)
	s.secure = newAdmission(o.Openings, o.MaxRequestsPerSecond, s.clock)
	return s
}

// Register adds ADS to a gRPC server, which must have been created with ServerOptions. A Server may
// be registered on several gRPC servers.
func (s *Server) Register(g *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s) }

// SetReady sets whether new streams are accepted. Otherwise they are refused with Unavailable, and
// the proxy retries. Open streams are not affected.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// Stop ends all streams and refuses new ones, so that grpc.Server.GracefulStop does not wait for
// them.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for x := range s.sessions {
		x.end(errStopping)
	}
}

// Connections returns the state of every open stream of a proxy, sorted by ID.
func (s *Server) Connections() []push.Connection { return s.pusher.Reports().Connections() }

// StreamAggregatedResources serves the state-of-the-world variant.
func (s *Server) StreamAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	return s.serveStream(st, stream.SotW)
}

// DeltaAggregatedResources serves the incremental variant.
func (s *Server) DeltaAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	return s.serveStream(st, stream.Delta)
}

var (
	errNotReady = status.Error(
		codes.Unavailable,
		"the control plane is not ready: its configuration is still being read",
	)
	errStopping = status.Error(codes.Unavailable, "the control plane is shutting down")
	// errDisplaced ends a call without a request when too many newer calls arrive.
	errDisplaced = status.Error(
		codes.Unavailable,
		"the first request did not arrive before newer streams displaced this one",
	)
)

// serveStream serves a stream until it ends, and returns its gRPC status, nil if the client has
// closed it. It refuses streams before SetReady, after Stop and on retired connections. It counts
// streams that the admission refuses, and records clients that exceed a limit (recordRefusal).
func (s *Server) serveStream(st grpc.ServerStream, mode stream.Mode) error {
	if !s.ready.Load() {
		return errNotReady
	}
	x := newSession(s, st, mode)
	defer x.end(nil)
	if err := s.addSession(x); err != nil {
		return err
	}
	defer s.removeSession(x)
	err := x.run()
	if errors.Is(err, errTooMany) {
		s.metrics.StreamRefused()
	}
	x.recordRefusal(err)
	return err
}

// addSession adds x to the open sessions and counts it at its connection (beginCall). It returns
// errStopping after Stop and errRebalanced on a retired connection, and then changes nothing.
func (s *Server) addSession(x *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return errStopping
	case x.link.retired.Load():
		return errRebalanced
	}
	x.link.beginCall()
	s.sessions[x] = struct{}{}
	return nil
}

// removeSession removes a session. If it was the last of a retired connection, the connection is
// closed.
func (s *Server) removeSession(x *session) {
	s.mu.Lock()
	delete(s.sessions, x)
	s.mu.Unlock()
	if x.link.endCall() && x.link.retired.Load() {
		x.link.close()
	}
}
