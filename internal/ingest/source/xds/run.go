package xds

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// run is the state of one Run. It belongs to one goroutine.
type run struct {
	*Source
	out         chan<- mesh.Batch
	collections []*collection // in the order of the requests
	byURL       map[string]*collection
	synced      bool
	problem     string // the connection's Problem as sent last
}

// newRun returns a run with an empty collection of each of Istio's kinds, indexed by type URL.
func newRun(s *Source, out chan<- mesh.Batch) *run {
	r := &run{Source: s, out: out, byURL: map[string]*collection{}}
	for _, k := range api.Kinds() {
		if k.Istio() {
			c := newCollection(k, s.Name())
			c.recovery = s.o.Recovery
			r.collections = append(r.collections, c)
			r.byURL[c.typeURL] = c
		}
	}
	return r
}

// maxMessage limits the size of a response, which in the state-of-the-world variant contains all
// objects of a type. gRPC's default is 4 MiB.
const maxMessage = 1 << 30

// window is the flow control window. A fixed one avoids bandwidth probing.
const window = 4 << 20

// readBuffer is the size of the read buffer.
const readBuffer = 256 << 10

// connect connects and serves one stream until it ends, in the delta variant if configured and
// implemented by the server, else state of the world, which it logs. It reports whether the server
// sent a response, and returns the reason of the end, which is never nil. That is also an error of
// the TLS files, which it reads.
func (r *run) connect(ctx context.Context) (answered bool, err error) {
	creds, err := r.security.newCredentials()
	if err != nil {
		return false, fmt.Errorf("tlsSettings: %w", err)
	}
	// HTTP/2 pings could detect a dead server too. But by default a gRPC server closes connections
	// with pings more often than every five minutes.
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 5 * time.Second, Count: 4},
	}
	conn, err := grpc.NewClient("passthrough:///"+r.address.Host,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newCodec())),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithReadBufferSize(readBuffer),
	)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if r.address.Delta {
		answered, err = r.serveStream(ctx, conn, delta{})
		if answered || status.Code(err) != codes.Unimplemented {
			return answered, err
		}
		r.o.Logger.Info(
			"the config source does not implement the delta variant, so it is asked for the state of the world",
			"source", r.Name())
	}
	return r.serveStream(ctx, conn, sotw{})
}

// reportDisconnect logs the end of a connection (answered) or a failed attempt, and the pause
// before the next. Only a failed attempt is a Problem, because connections end now and then.
func (r *run) reportDisconnect(ctx context.Context, err error, answered bool, pause time.Duration) {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	r.o.Logger.Info("no connection to the config source", "source", r.Name(), "error", text,
		"retry", pause.Round(time.Millisecond))
	if answered {
		return
	}
	if r.synced {
		text += "; its last valid version stays in use"
	}
	r.setProblem(ctx, "cannot be read: "+text)
}

// setProblem sends the Problem of the connection with this reason; "" resolves it. It does nothing
// if it is the one sent last. The state that Unreadable returns changes with it.
func (r *run) setProblem(ctx context.Context, problem string) {
	if problem == r.problem {
		return
	}
	r.problem = problem
	r.setUnreadable(problem)
	list := &mesh.Problems{Scope: r.Name()}
	if problem != "" {
		list.List = []config.Problem{{Code: code.UnreadableSource, Origin: r.Name(), Reason: problem,
			Severity: config.Error}}
	}
	r.sendBatch(ctx, mesh.Batch{{Source: r.Name(), Problems: list}})
}

// setUnreadable updates the state that Unreadable returns. Another reason does not change the time.
// "" means readable.
func (r *run) setUnreadable(reason string) {
	if reason == "" {
		r.unreadable.Store(nil)
		return
	}
	next := &unreadable{since: r.o.Clock.Now(), reason: reason}
	if old := r.unreadable.Load(); old != nil {
		next.since = old.since
	}
	r.unreadable.Store(next)
}

// sendBatch sends a batch unless it is empty or ctx ends before.
func (r *run) sendBatch(ctx context.Context, b mesh.Batch) {
	if len(b) == 0 {
		return
	}
	select {
	case r.out <- b:
	case <-ctx.Done():
	}
}

// applyResponse applies a response to the held objects, sends the resulting events, and returns it
// for the acknowledgement. It adds Synced once, when every type has been answered. A type that was
// not requested is logged and ignored. It returns an error only if the message cannot be parsed.
func (r *run) applyResponse(ctx context.Context, v variant, message []byte) (response, error) {
	response, err := readResponse(message, v.incremental())
	if err != nil {
		return response, fmt.Errorf("read a response: %w", err)
	}
	c := r.byURL[response.typeURL]
	if c == nil {
		r.o.Logger.Warn("the config source sends a type that was not asked for", "source", r.Name(),
			"type", response.typeURL)
		return response, nil
	}
	e := c.newEdit(r.Name())
	if v.incremental() {
		e.applyChanges(response)
	} else {
		e.applyFullState(response)
	}
	r.o.Logger.Debug("received config", "source", r.Name(), "type", response.typeURL,
		"bytes", len(message), "events", len(e.batch), "objects", len(c.held))
	if !r.synced && len(r.unansweredTypes()) == 0 {
		r.synced = true
		r.o.Logger.Info("all of the config source is read", "source", r.Name(), "objects", r.countObjects())
		e.batch = append(e.batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
	}
	r.sendBatch(ctx, e.batch)
	return response, nil
}

// unansweredTypes returns the type URLs for which the server has never sent a response, nil if
// there are none.
func (r *run) unansweredTypes() []string {
	var list []string
	for _, c := range r.collections {
		if !c.answered {
			list = append(list, c.typeURL)
		}
	}
	return list
}

// countObjects returns the number of objects held of all kinds.
func (r *run) countObjects() int {
	n := 0
	for _, c := range r.collections {
		n += len(c.held)
	}
	return n
}

// missingTypes returns the reason of a Problem that names the types which the connected server has
// not answered, or "" if it has answered all.
func (r *run) missingTypes() string {
	list := r.unansweredTypes()
	if len(list) == 0 {
		return ""
	}
	return "is connected, but has not sent its state yet of " + strings.Join(list, ", ")
}
