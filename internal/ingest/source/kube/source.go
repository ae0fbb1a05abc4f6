package kube

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Source. Client, Name and Kinds are required.
type Options struct {
	Client *kube.Client
	// Name is the name of the source in events, logs and Problems: "kubernetes/cluster1".
	Name string
	// Kinds are the kinds to read, without duplicates. Custom kinds are read while they are
	// installed.
	Kinds []api.Kind
	// Namespaces limits the objects to these namespaces (default all), with a list and watch for
	// each.
	Namespaces []string
	// Names limits the objects to these names (default all).
	Names []string
	// Revision is the revision of the control plane. Objects of Istio or of the Gateway API whose
	// label istio.io/rev has another value are ignored; objects without the label and Gateways of
	// the Gateway API are read. If empty, all objects are read.
	Revision string
	// SyncTimeout is how long Synced waits for kinds without which a control plane can start
	// (default 20 s). It waits for all other kinds without limit.
	SyncTimeout time.Duration
	// OptionalKinds are further kinds without which the control plane can start: Synced waits for them
	// only until SyncTimeout.
	OptionalKinds []api.Kind
	// Grace is how long a kind must fail before that is logged and reported as a Problem (default 3
	// s). Denied access is reported at once.
	Grace time.Duration
	// Backoff and MaxBackoff limit the time between attempts (default 200 ms and 10 s).
	Backoff, MaxBackoff time.Duration
	// ShrinkConfirmation is how long objects are kept after a list lacked more than half of the
	// objects of a kind (default 30 s). A second list after that time, or a watch event, is
	// trusted.
	ShrinkConfirmation time.Duration
	Logger             *slog.Logger // if nil, nothing is logged
	// Recovery confines a panic while an object is decoded or validated to that object. If nil, the
	// panic propagates.
	Recovery *recovery.Recorder
	Metrics  Metrics     // if nil, nothing is measured
	Clock    clock.Clock // default: the system clock
}

// Metrics receives events of the source. It must be safe for concurrent use.
type Metrics interface {
	// Event is called for each received object that differs from the known one, with "add",
	// "update" or "delete", or with "updatesame" if its content is equal.
	Event(kind api.Kind, event string)
	// Failed is called for each failed list or watch.
	Failed(kind api.Kind)
}

// Source reads the objects of an API server.
type Source struct {
	o     Options
	store *store
}

var _ source.Source = (*Source)(nil)

// New returns a source. It sends no request yet. Of options that are zero, SyncTimeout is 20 s,
// Grace 3 s, Backoff 200 ms, MaxBackoff 10 s and ShrinkConfirmation 30 s. Without a Logger or
// Metrics it has none; Clock is the system's.
func New(o Options) *Source {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.SyncTimeout, 20*time.Second)
	def(&o.Grace, 3*time.Second)
	def(&o.Backoff, 200*time.Millisecond)
	def(&o.MaxBackoff, 10*time.Second)
	def(&o.ShrinkConfirmation, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	return &Source{o: o, store: newStore(o)}
}

// Name returns Options.Name.
func (s *Source) Name() string { return s.o.Name }

// Run sends the current state as one batch that ends with Synced, then a batch per change or burst
// of changes, until the context ends; then it returns nil. It must not be called twice.
//
// The scope of an object's Problems is the source's name and the object's key; that of the source's
// own Problems is its name.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r := &run{
		Source:   s,
		problems: emit.NewProblemEmitter(s.Name(), func(name string) string { return name }),
	}
	return r.readAndSend(ctx, out)
}

type noMetrics struct{}

// Event does nothing.
func (noMetrics) Event(api.Kind, string) {}

// Failed does nothing.
func (noMetrics) Failed(api.Kind) {}
