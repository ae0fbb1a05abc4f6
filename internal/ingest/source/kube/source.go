package kube

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options are those of a source. Client, Name and Kinds are required.
type Options struct {
	Client *kube.Client
	// Name is the source's: "kubernetes/cluster1". It goes into events, logs and Problems.
	Name string
	// Kinds are what is followed, each once. Custom kinds are followed as long as they are installed.
	Kinds []api.Kind
	// Namespaces are the only ones whose objects are asked for, by list and watch of each; empty: all, with one list and watch.
	Namespaces []string
	// Names are the only ones of objects that are asked for; empty: all.
	Names []string
	// Revision is that of the control plane. An object of Istio's or the Gateway API's that has the label istio.io/rev with
	// another value is none of its; one without the label is everybody's. Empty: all objects are.
	Revision string
	// Patience is how long Synced waits for kinds without which a control plane may start; 20 s if zero. For the others it waits
	// as long as it takes.
	Patience time.Duration
	// Dispensable are further kinds without which Synced may be said.
	Dispensable []api.Kind
	// Grace is how long a kind may fail before that is a Problem and logged; 3 s if zero. An API server that refuses is named at once.
	Grace time.Duration
	// Backoff and MaxBackoff bound the time between attempts; 200 ms and 10 s if zero.
	Backoff, MaxBackoff time.Duration
	// Doubt is how long objects are kept that a list no longer has, where it lacks more than half of a kind; 30 s if zero. A list
	// that still lacks them then, or a watch that says so, is believed.
	Doubt  time.Duration
	Logger *slog.Logger // none if nil
	// Recovery confines a panic while an object is decoded or validated to that object. If nil, the panic passes.
	Recovery *recovery.Recorder
	Metrics  Metrics // none if nil
	Clock    Clock   // the system's if nil
}

// Metrics is told what comes in. It is called from many goroutines.
type Metrics interface {
	// Event is told of each object that differs from what was known: "add", "update" or "delete".
	Event(kind api.Kind, event string)
	// Failed is told of each list or watch that failed.
	Failed(kind api.Kind)
}

// Clock is the time.
type Clock interface {
	Now() time.Time
	// After gives a channel that gets the time once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Source follows the objects of an API server.
type Source struct {
	o     Options
	store *store
}

var _ source.Source = (*Source)(nil)

// New makes a source. It asks the API server nothing yet.
func New(o Options) *Source {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Patience, 20*time.Second)
	def(&o.Grace, 3*time.Second)
	def(&o.Backoff, 200*time.Millisecond)
	def(&o.MaxBackoff, 10*time.Second)
	def(&o.Doubt, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	return &Source{o: o, store: newStore(o)}
}

// Name is Options.Name.
func (s *Source) Name() string { return s.o.Name }

// Run sends what the API server has as one batch that ends with Synced, then a batch for each change or burst of changes, until
// the context ends; then it returns nil. It may run once.
//
// The Problems of an object have its key behind the source's name as their scope, those of the source its name.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r := &run{Source: s}
	return r.run(ctx, out)
}

type unmeasured struct{}

func (unmeasured) Event(api.Kind, string) {}
func (unmeasured) Failed(api.Kind)        {}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
