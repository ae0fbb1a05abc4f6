package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Generator is the value of the node metadata field GENERATOR that selects this Handler.
const Generator = "api"

// Options are the dependencies and settings of a Feed. All fields but Access are optional.
type Options struct {
	Access  Access
	Logger  *slog.Logger // if nil, nothing is logged
	Metrics Metrics      // if nil, nothing is measured
	Clock   clock.Clock  // if nil, the system clock is used
	// Recovery confines a panic over one client to its stream. If nil, panics are not recovered.
	Recovery *recovery.Recorder
}

// Metrics receives measurements. Its methods may be called by many goroutines at once.
type Metrics interface {
	// Sent records a response that was written, with its size in bytes and the time that writing
	// took.
	Sent(typeURL string, resources, bytes int, took time.Duration)
	// Received records a request with its size in bytes.
	Received(bytes int)
}

// Feed serves configuration objects to other control planes.
type Feed struct {
	access   Access
	log      *slog.Logger
	metrics  Metrics
	clock    clock.Clock
	recovery *recovery.Recorder
	types    *stream.Types

	mu      sync.Mutex
	newest  *snapshot.Snapshot
	changed notify.Broadcast // notified when newest is replaced
	clients int
	library *library // nil while no client is connected
}

var _ server.Handler = (*Feed)(nil)

// New returns a Feed that sends no resources before the first Publish. If nil, Logger discards,
// Metrics records nothing, and Clock is the system's. Without Recovery, panics are not recovered.
func New(o Options) *Feed {
	f := &Feed{
		access:   o.Access,
		log:      o.Logger,
		metrics:  o.Metrics,
		clock:    o.Clock,
		recovery: o.Recovery,
		types:    newTypes(),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.metrics == nil {
		f.metrics = noMetrics{}
	}
	if f.clock == nil {
		f.clock = clock.System{}
	}
	return f
}

// Publish replaces the snapshot that is served and wakes all streams. It does not block. It encodes
// nothing; the streams do.
func (f *Feed) Publish(s *snapshot.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = s
	f.changed.Notify()
}

// currentResources returns the ResourceSnapshot of the newest snapshot (library.resourcesOf), the
// previous one if nothing in it changed. It is nil before the first Publish. The channel is closed
// when a newer snapshot is published. It creates f.library if there is none, and locks f.mu.
func (f *Feed) currentResources() (*stream.ResourceSnapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest == nil {
		return nil, f.changed.Changed()
	}
	if f.library == nil {
		f.library = newLibrary(f.types, f.log)
	}
	return f.library.resourcesOf(f.newest), f.changed.Changed()
}

// addClients adds n, which may be negative, to the number of connected clients. With the last
// client it drops the library with the encoded objects.
func (f *Feed) addClients(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients += n; f.clients == 0 {
		f.library = nil
	}
}

// ServeSotW serves a stream of the state-of-the-world variant until it ends, and returns why it
// ended, never nil. A client that Access refuses gets a gRPC status at once.
func (f *Feed) ServeSotW(ctx context.Context, h server.Hello, s server.SotWStream) error {
	return f.serveStream(ctx, h, stream.SotW, sotwWire{s})
}

// ServeDelta serves a stream of the incremental variant until it ends, and returns why it ended,
// never nil. A client that Access refuses gets a gRPC status at once.
func (f *Feed) ServeDelta(ctx context.Context, h server.Hello, s server.DeltaStream) error {
	return f.serveStream(ctx, h, stream.Delta, deltaWire{s})
}

// serveStream serves one client until its stream ends, and returns the reason of the end (see
// session.run). A client that access refuses gets the error of checkClient at once. It logs the
// refusal, or the start and the end of the stream, and counts the client with addClients as long as
// it is served.
func (f *Feed) serveStream(ctx context.Context, h server.Hello, mode stream.Mode, w wire) error {
	log := f.log.With("client", h.Node.GetId(), "address", h.Peer, "identities", h.Identities)
	if err := f.access.checkClient(h); err != nil {
		log.Warn("configuration client refused", "error", err)
		return err
	}
	f.addClients(+1)
	defer f.addClients(-1)
	log.Info("serving configuration to a client", "mode", mode.String())
	x := &session{
		f:       f,
		log:     log,
		wire:    w,
		machine: stream.New(stream.Options{Mode: mode, Types: f.types}),
		requests: make(
			chan stream.Request,
		),
		ended:   make(chan error, 1),
		over:    make(chan struct{}),
		written: make(chan error, 1),
	}
	err := x.run(ctx)
	log.Info("configuration client disconnected", "reason", err)
	return err
}

type noMetrics struct{}

func (noMetrics) Sent(string, int, int, time.Duration) {}
func (noMetrics) Received(int)                         {}
