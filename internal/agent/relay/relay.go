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
)

const (
	// openTimeout bounds the way to an open stream to one address. The stream itself may live for ever.
	openTimeout = 5 * time.Second
	// maxMessage bounds one message.
	maxMessage = 500 << 20
	// window is what may be on its way to the agent before it is acknowledged.
	window = 1 << 20
)

// Options are what a Relay works with.
type Options struct {
	// Target is the control plane. Of its addresses the one that last worked is tried first, then the others in turn.
	Target controlplane.Target
	// Streams is how many streams there may be at a time, 1 if 0. Another one ends the oldest: Envoy opens one when it has
	// given up the last.
	Streams int
	// Own are the types that the agent asks for itself.
	Own []*Own
	// Convert replaces remote code of extensions by local files, in the resource itself; nil leaves extensions as they are.
	// An error refuses the whole response.
	Convert func(ctx context.Context, r *discoveryv3.Resource) error
	Metrics *Metrics
	Log     *slog.Logger
	// Recovery confines a panic to the stream that causes it. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Relay carries streams. It is for use by many goroutines.
type Relay struct {
	o Options

	mu sync.Mutex
	// sessions are those under way, in the order in which Envoy began them; begun counts these.
	sessions []*session
	begun    uint64
	// good is the index of the address that last worked.
	good int
	// health is what the control plane is told of the workload, nil before there is anything to tell.
	health *health
}

// health is the state of the workload, and what is wrong with it if it is not well.
type health struct{ problem *rpcstatus.Status }

// New makes a Relay.
func New(o Options) *Relay {
	o.Streams = max(o.Streams, 1)
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Relay{o: o}
}

// Serve serves on the listener, which it closes, until the context ends.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(append(serve.Interceptors(r.o.Recovery),
		grpc.ForceServerCodecV2(frames{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)...)
	server.RegisterService(r.description(), nil)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve ADS: %w", err)
	}
	return nil
}

// description is the ADS service for messages that are not decoded.
func (r *Relay) description() *grpc.ServiceDesc {
	stream := func(f form) grpc.StreamDesc {
		_, name, _ := strings.Cut(f.method()[1:], "/")
		return grpc.StreamDesc{
			StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return r.serve(f, s) },
		}
	}
	return &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{stream(sotw{}), stream(delta{})}}
}

// serve carries one stream.
func (r *Relay) serve(f form, down grpc.ServerStream) error {
	number := r.begin()
	ctx, end := context.WithCancelCause(down.Context())
	defer end(nil)
	connection, up, err := r.open(ctx, f)
	if err != nil {
		r.o.Metrics.failures.Inc()
		r.o.Log.Warn("no connection to the control plane", "error", err)
		return status.Error(codes.Unavailable, err.Error())
	}
	defer func() { _ = connection.Close() }()
	s := newSession(r, f, down, up, end)
	s.number = number
	r.add(s)
	defer r.remove(s)
	r.o.Log.Info("connected to the control plane", "address", connection.CanonicalTarget())
	return s.run(ctx)
}

var errReplaced = errors.New("another stream took its place")

// begin numbers a stream. The way to the control plane may be longer for an earlier one.
func (r *Relay) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	return r.begun
}

// add keeps as many streams as there may be, the newest.
func (r *Relay) add(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = append(r.sessions, s)
	slices.SortFunc(r.sessions, func(a, b *session) int { return cmp.Compare(a.number, b.number) })
	for len(r.sessions) > r.o.Streams {
		r.sessions[0].end(errReplaced)
		r.sessions = r.sessions[1:]
	}
}

func (r *Relay) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.sessions {
		if other == s {
			r.sessions = append(r.sessions[:i:i], r.sessions[i+1:]...)
			return
		}
	}
}

// open opens a stream to the first address that takes one.
func (r *Relay) open(ctx context.Context, f form) (*grpc.ClientConn, grpc.ClientStream, error) {
	r.mu.Lock()
	first := r.good
	r.mu.Unlock()
	addresses := r.o.Target.Addresses
	var errs []error
	for i := range addresses {
		which := (first + i) % len(addresses)
		connection, up, err := r.openAt(ctx, f, addresses[which])
		if err == nil {
			r.mu.Lock()
			r.good = which
			r.mu.Unlock()
			return connection, up, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", addresses[which], err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, errors.Join(errs...)
}

var errSlow = errors.New("no connection within " + openTimeout.String())

func (r *Relay) openAt(ctx context.Context, f form, address string) (*grpc.ClientConn, grpc.ClientStream, error) {
	connection, err := r.o.Target.Connect(address)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(openTimeout, func() { cancel(errSlow) })
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	up, err := connection.NewStream(r.o.Target.Context(ctx), description, f.method(), grpc.ForceCodecV2(frames{}))
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
