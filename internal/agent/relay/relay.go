package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
	"github.com/meshpilot/meshpilot/internal/base/retry"
)

const (
	// openTimeout bounds opening a stream to one address. The stream itself has no timeout.
	openTimeout = 5 * time.Second
	// maxMessage bounds the size of one message.
	maxMessage = 500 << 20
	// flowWindow is the initial flow control window of streams and connections.
	flowWindow = 1 << 20
)

// Options configure a Relay.
type Options struct {
	// Target is the control plane. The address that last worked is tried first, then the others in
	// order.
	Target controlplane.Target
	// Streams is the maximum number of concurrent streams (default 1). A further stream ends the
	// oldest one, because Envoy opens a stream only when it has closed the last.
	Streams int
	// Subscriptions are the agent's own.
	Subscriptions []*Subscription
	// Convert replaces remote code in an extension's resource by local files, in place, without
	// waiting. If code must be fetched first, it returns a function that does so and then converts
	// the resource; the resource is forwarded afterwards. If Convert returns an error, the whole
	// response is rejected (NACK). If nil, extensions are forwarded unchanged.
	Convert func(r *discoveryv3.Resource) (fetch func(context.Context) error, err error)
	Metrics *Metrics
	Log     *slog.Logger
	// Recovery confines a panic to the stream that causes it. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Relay forwards streams. It is safe for concurrent use.
type Relay struct {
	o         Options
	addresses *retry.Addresses

	mu sync.Mutex
	// sessions are the open streams in the order in which Envoy opened them. streamCount is the
	// number of all streams ever opened.
	sessions    []*session
	streamCount uint64
	// health is the health to report to the control plane, nil if it is not yet known.
	health *health
}

// health is the health of the workload. problem is nil if it is healthy.
type health struct{ problem *rpcstatus.Status }

// New returns a Relay. A smaller Options.Streams is raised to 1; without Metrics, its metrics are
// not registered.
func New(o Options) *Relay {
	o.Streams = max(o.Streams, 1)
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Relay{o: o, addresses: retry.NewAddresses(o.Target.Addresses)}
}

// Serve accepts streams on the listener until ctx ends, and closes it. It returns nil when ctx has
// ended. Open streams end then, too.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(append(serve.Interceptors(r.o.Recovery),
		grpc.ForceServerCodecV2(frameCodec{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(flowWindow), grpc.InitialConnWindowSize(flowWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)...)
	server.RegisterService(r.serviceDesc(), nil)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve ADS: %w", err)
	}
	return nil
}

// serviceDesc describes the ADS service, whose messages are not decoded. Its SotW and delta streams
// are served by serveStream.
func (r *Relay) serviceDesc() *grpc.ServiceDesc {
	stream := func(f protocol) grpc.StreamDesc {
		_, name, _ := strings.Cut(f.methodName()[1:], "/")
		return grpc.StreamDesc{
			StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return r.serveStream(f, s) },
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: adsService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{stream(sotw{}), stream(delta{})},
	}
}

// serveStream forwards one stream until Envoy, the control plane or the agent ends it. It returns
// nil if Envoy ended it, otherwise Unavailable, also if the control plane cannot be reached, which
// is logged and counted. It ends older streams if there are more than Options.Streams.
func (r *Relay) serveStream(f protocol, down grpc.ServerStream) error {
	number := r.nextStreamNumber()
	ctx, end := context.WithCancelCause(down.Context())
	defer end(nil)
	connection, up, err := r.openUpstream(ctx, f)
	if err != nil {
		r.o.Metrics.failures.Inc()
		r.o.Log.Warn("cannot connect to the control plane, envoy will retry", "error", err)
		return status.Error(codes.Unavailable, err.Error())
	}
	defer func() { _ = connection.Close() }()
	s := newSession(r, f, down, up, end)
	s.number = number
	r.addSession(s)
	defer r.removeSession(s)
	r.o.Log.Info("connected to the control plane", "address", connection.CanonicalTarget())
	return s.run(ctx)
}

var errReplaced = errors.New("replaced by a newer stream of envoy")

// nextStreamNumber returns the number of a new stream. Streams are ordered by it, because an
// earlier stream may take longer to connect to the control plane.
func (r *Relay) nextStreamNumber() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamCount++
	return r.streamCount
}

// addSession adds a session, and ends the sessions with the lowest numbers if there are more than
// Options.Streams.
func (r *Relay) addSession(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = append(r.sessions, s)
	slices.SortFunc(r.sessions, func(a, b *session) int { return cmp.Compare(a.number, b.number) })
	for len(r.sessions) > r.o.Streams {
		r.sessions[0].end(errReplaced)
		r.sessions = r.sessions[1:]
	}
}

// removeSession removes a session if it is still there.
func (r *Relay) removeSession(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.sessions {
		if other == s {
			r.sessions = append(r.sessions[:i:i], r.sessions[i+1:]...)
			return
		}
	}
}

// openUpstream opens a stream to the first address that accepts one. It starts with the address of
// the last attempt or, if that failed, with the next one. It returns all errors if none accepts;
// there must be an address.
func (r *Relay) openUpstream(
	ctx context.Context, f protocol,
) (connection *grpc.ClientConn, up grpc.ClientStream, err error) {
	err = r.addresses.Try(ctx, func(address string) (done bool, err error) {
		if connection, up, err = r.openUpstreamAt(ctx, f, address); err != nil {
			return false, fmt.Errorf("%s: %w", address, err)
		}
		return true, nil
	})
	return connection, up, err
}

var errSlow = errors.New("no connection within " + openTimeout.String())

// openUpstreamAt opens a stream to one address within openTimeout. The caller must close the
// returned connection, which ends the stream. An attempt that takes longer fails with errSlow.
func (r *Relay) openUpstreamAt(
	ctx context.Context, f protocol, address string,
) (*grpc.ClientConn, grpc.ClientStream, error) {
	connection, err := r.o.Target.NewConnection(address)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(openTimeout, func() { cancel(errSlow) })
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	up, err := connection.NewStream(
		r.o.Target.WithMetadata(ctx), description, f.methodName(), grpc.ForceCodecV2(frameCodec{}))
	limit.Stop()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		cancel(nil)
		return nil, nil, errors.Join(err, connection.Close())
	}
	return connection, up, nil // closing the connection ends the stream, and with it the context
}
