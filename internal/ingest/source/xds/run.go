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
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// run is one Run: its goroutine owns all of it.
type run struct {
	*Source
	out         chan<- mesh.Batch
	collections []*collection // in the order in which they are asked for
	byURL       map[string]*collection
	synced      bool
	problem     string // with the connection, as it was last sent
}

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

// maxMessage bounds a response, which in the state-of-the-world variant holds all objects of a type. gRPC's own bound is 4 MiB.
const maxMessage = 1 << 30

// window is how much may be on its way; a fixed one costs no probing of the bandwidth.
const window = 4 << 20

// readBuffer is how much is read at once.
const readBuffer = 256 << 10

// connect connects, and serves the stream until it ends. It says whether the server answered, and why it ended, which is never
// nil.
func (r *run) connect(ctx context.Context) (answered bool, err error) {
	creds, err := r.security.credentials()
	if err != nil {
		return false, fmt.Errorf("tlsSettings: %w", err)
	}
	// HTTP/2 pings would find out that the server is gone, too, but a gRPC server that was not told otherwise closes
	// connections on which they come more often than every five minutes.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 5 * time.Second, Count: 4}}
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
		answered, err = r.stream(ctx, conn, delta{})
		if answered || status.Code(err) != codes.Unimplemented {
			return answered, err
		}
		r.o.Logger.Info("the config source does not implement the delta variant, so it is asked for the state of the world", "source", r.Name())
	}
	return r.stream(ctx, conn, sotw{})
}

// lost tells of a connection that ended or did not come about. That one ends now and then is no Problem, only that none comes
// about.
func (r *run) lost(ctx context.Context, err error, answered bool, pause time.Duration) {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	r.o.Logger.Info("no connection to the config source", "source", r.Name(), "error", text, "retry", pause.Round(time.Millisecond))
	if answered {
		return
	}
	if r.synced {
		text += "; what it said last stays in use"
	}
	r.report(ctx, "cannot be read: "+text)
}

// report sends what is wrong with the connection, if that is not known; "" mends it.
func (r *run) report(ctx context.Context, problem string) {
	if problem == r.problem {
		return
	}
	r.problem = problem
	list := &mesh.Problems{Scope: r.Name()}
	if problem != "" {
		list.List = []config.Problem{{Origin: r.Name(), Reason: problem, Severity: config.Error}}
	}
	r.send(ctx, mesh.Batch{{Source: r.Name(), Problems: list}})
}

func (r *run) send(ctx context.Context, b mesh.Batch) {
	if len(b) == 0 {
		return
	}
	select {
	case r.out <- b:
	case <-ctx.Done():
	}
}

// take takes a response in. It gives the acknowledged response, or an error if it is none.
func (r *run) take(ctx context.Context, v variant, message []byte) (response, error) {
	response, err := readResponse(message, v.incremental())
	if err != nil {
		return response, fmt.Errorf("read a response: %w", err)
	}
	c := r.byURL[response.typeURL]
	if c == nil {
		r.o.Logger.Warn("the config source sends a type that was not asked for", "source", r.Name(), "type", response.typeURL)
		return response, nil
	}
	e := c.edit(r.Name())
	if v.incremental() {
		e.changes(response)
	} else {
		e.fullState(response)
	}
	r.o.Logger.Debug("received config", "source", r.Name(), "type", response.typeURL, "bytes", len(message), "events", len(e.batch), "objects", len(c.held))
	if !r.synced && len(r.unanswered()) == 0 {
		r.synced = true
		r.o.Logger.Info("all of the config source is read", "source", r.Name(), "objects", r.objects())
		e.batch = append(e.batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
	}
	r.send(ctx, e.batch)
	return response, nil
}

// unanswered gives the types of which nothing is known yet.
func (r *run) unanswered() []string {
	var list []string
	for _, c := range r.collections {
		if !c.answered {
			list = append(list, c.typeURL)
		}
	}
	return list
}

func (r *run) objects() int {
	n := 0
	for _, c := range r.collections {
		n += len(c.held)
	}
	return n
}

// missing says which types the server that is connected has not answered for; "" if there are none.
func (r *run) missing() string {
	list := r.unanswered()
	if len(list) == 0 {
		return ""
	}
	return "is connected, but has not said yet what there is of " + strings.Join(list, ", ")
}
