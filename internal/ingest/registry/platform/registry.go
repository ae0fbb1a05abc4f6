package platform

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Options configure a Registry.
type Options struct {
	// Platform is the name of the platform: the value of --registries, and the provider of its
	// services ("ZooKeeper").
	Platform string
	// Address is the address of the platform, for logs and debug pages.
	Address string
	Logger  *slog.Logger         // if nil, nothing is logged
	Metrics *obs.PlatformMetrics // if nil, nothing is recorded
	Clock   clock.Clock          // default: the system clock
	// HoldTime is how long held instances stay at least (adapter.FollowOptions). If 0, they stay
	// until they are registered again.
	HoldTime time.Duration
	// Recovery confines a panic of the conversion to one service. If nil, it propagates.
	Recovery *recovery.Recorder
}

// Registry reads the services of a platform and emits a ServiceEntry for each, or several for a
// service with more endpoints than one can have.
type Registry struct {
	o        Options
	follower *adapter.Follower

	// The fields below belong to the callback of the follower, which is never called twice at a
	// time.
	out      chan<- mesh.Batch
	ctx      context.Context // of Run
	emitted  map[adapter.ServiceKey][]*config.Config
	problems map[adapter.ServiceKey]*serviceProblems
	emitter  *emit.ProblemEmitter[adapter.ServiceKey]
	guard    registry.Guard
	failures int
}

// serviceProblems are the problems of a service: of its last conversion, and as the platform
// reported them.
type serviceProblems struct {
	conversion, reported []config.Problem
}

var _ registry.Registry = (*Registry)(nil)

// New returns a Registry of a platform, which connects in Run. Clock and Logger have defaults: the
// system's clock, and no logs.
func New(p adapter.Platform, o Options) *Registry {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		o:        o,
		emitted:  map[adapter.ServiceKey][]*config.Config{},
		problems: map[adapter.ServiceKey]*serviceProblems{},
	}
	r.guard = registry.Guard{Recovery: o.Recovery, Source: r.Name()}
	r.emitter = emit.NewProblemEmitter(r.Name(),
		func(k adapter.ServiceKey) string { return r.Name() + " " + k.String() })
	r.follower = adapter.NewFollower(recovered{p, o.Recovery, o.Platform}, adapter.FollowOptions{
		Clock: o.Clock, Logger: o.Logger.With("source", r.Name()), Observe: r.observe, HoldTime: o.HoldTime,
	}, r.apply)
	return r
}

// recovered records a panic of a platform's Watch and returns it as an error.
type recovered struct {
	adapter.Platform
	recovery *recovery.Recorder
	name     string
}

// Watch calls Watch of the platform. If recovery is set, a panic becomes an error.
func (p recovered) Watch(ctx context.Context, sink adapter.Sink) error {
	if p.recovery == nil {
		return p.Platform.Watch(ctx, sink)
	}
	return p.recovery.Call("platform", func() error { return p.Platform.Watch(ctx, sink) }, "platform", p.name)
}

// Name returns "PLATFORM/ADDRESS", or "PLATFORM" without an address.
func (r *Registry) Name() string {
	if r.o.Address == "" {
		return r.o.Platform
	}
	return r.o.Platform + "/" + r.o.Address
}

// Status returns the current state of the platform, with its numbers and its last error.
func (r *Registry) Status() adapter.Status { return r.follower.Status() }

// Waiting returns the last error of the platform, or "" if it can be read.
func (r *Registry) Waiting() string { return r.Status().Error }

// Run sends the services of the platform as ServiceEntries, then Synced, then changes, until ctx
// ends. Then it returns nil. While the platform cannot be read, it sends only Problems. It must be
// called once.
func (r *Registry) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r.ctx, r.out = ctx, out
	r.follower.Run(ctx)
	return nil
}

// apply sends the events of a change to out, in one batch: services, deletions, problems, then
// Synced. It blocks until they are received or the context ends. It sends nothing if nothing
// changed.
func (r *Registry) apply(c adapter.Change) {
	var batch mesh.Batch
	for i := range c.Set {
		batch = r.setService(batch, &c.Set[i])
	}
	for _, k := range c.Deleted {
		batch = r.deleteService(batch, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.Problems), adapter.ServiceKey.Compare) {
		batch = r.setReported(batch, k, c.Problems[k])
	}
	if c.Synced {
		batch = append(batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
	}
	if len(batch) == 0 {
		return
	}
	select {
	case r.out <- batch:
	case <-r.ctx.Done():
	}
}

// setService appends the events of a new or changed service to out, and returns it. If the service
// cannot be converted or is not valid, its last valid ServiceEntries stay, and a Problem is
// appended. ServiceEntries that it no longer needs are deleted.
func (r *Registry) setService(out mesh.Batch, s *adapter.Service) mesh.Batch {
	k := s.ServiceKey
	var objects []*config.Config
	var problems []config.Problem
	out, ok := r.guard.Try(out, registry.Convert, r.objectKey(k), r.Name(), func() { objects, problems = r.convert(s) })
	if !ok {
		return out
	}
	old := r.emitted[k]
	if objects == nil && old != nil {
		problems = append(problems, r.problem(k, config.Error, "the last valid version of the service stays in use"))
	}
	out = r.setConversion(out, k, problems)
	if objects == nil {
		return out
	}
	r.emitted[k] = objects
	for i, o := range objects {
		if i >= len(old) || old[i].Hash != o.Hash {
			out = append(out, mesh.Event{Source: r.Name(), Config: o})
		}
	}
	if len(old) <= len(objects) {
		return out
	}
	return r.appendDeletions(out, old[len(objects):])
}

// appendDeletions appends events that delete ServiceEntries.
func (r *Registry) appendDeletions(out mesh.Batch, objects []*config.Config) mesh.Batch {
	for _, o := range objects {
		deleted := &config.Config{Meta: config.Meta{Key: o.Key}}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: r.Name(), Config: deleted})
	}
	return out
}

// convert converts a service to ServiceEntries, and returns the Problems of its parts, at most
// maxProblems and a note. There are no objects if the service cannot be used, for which the
// Problems are Errors, or if a ServiceEntry is not valid.
func (r *Registry) convert(s *adapter.Service) ([]*config.Config, []config.Problem) {
	var problems []config.Problem
	entries, errs := adapter.NewEntries(r.o.Platform, *s)
	severity := config.Warning
	if entries == nil {
		severity = config.Error
	}
	for _, err := range errs {
		if len(problems) == maxProblems {
			problems = append(problems, r.problem(s.ServiceKey, severity, "more problems are not shown"))
			break
		}
		p := r.problem(s.ServiceKey, severity, err.Reason)
		p.Field = truncate.Text(strings.ToValidUTF8(err.Field, "?"), maxReason)
		problems = append(problems, p)
	}
	var objects []*config.Config
	for _, e := range entries {
		object, invalid := r.newObject(s.ServiceKey, e)
		if len(invalid) > 0 {
			return nil, append(problems, invalid...)
		}
		objects = append(objects, object)
	}
	return objects, problems
}

// newObject returns the object of a ServiceEntry of a service. If it also returns Problems, which
// are all Errors, the object must not be used.
func (r *Registry) newObject(k adapter.ServiceKey, e adapter.Entry) (*config.Config, []config.Problem) {
	object, err := config.New(config.Meta{
		Key:    config.Key{Kind: api.ServiceEntry, Namespace: k.Namespace, Name: e.Name},
		Labels: e.Labels, Annotations: e.Annotations, Created: e.Created, Origin: r.Name(),
	}, e.Spec)
	if err != nil {
		return nil, []config.Problem{r.problem(k, config.Error, err.Error())}
	}
	// Warnings advise authors of ServiceEntries, for instance of one without endpoints.
	return object, slices.DeleteFunc(config.Validate(object),
		func(p config.Problem) bool { return p.Severity != config.Error })
}

// maxProblems limits the Problems of one service.
const maxProblems = 20

// deleteService appends the events that delete the ServiceEntries of a service and its Problems.
// There is no event for what was never sent.
func (r *Registry) deleteService(out mesh.Batch, k adapter.ServiceKey) mesh.Batch {
	out = r.guard.ClearProblem(out, registry.Convert, r.objectKey(k))
	out = r.setConversion(out, k, nil)
	out = r.appendDeletions(out, r.emitted[k])
	delete(r.emitted, k)
	return out
}

// setConversion replaces the Problems of a service's conversion by list, and appends the events for
// the difference.
func (r *Registry) setConversion(out mesh.Batch, k adapter.ServiceKey, list []config.Problem) mesh.Batch {
	return r.editProblems(out, k, func(p *serviceProblems) { p.conversion = list })
}

// setReported replaces the Problem that the platform reported of a service, or of itself for the
// zero key. If err is nil, it removes it. It appends the events for the difference.
func (r *Registry) setReported(out mesh.Batch, k adapter.ServiceKey, err error) mesh.Batch {
	return r.editProblems(out, k, func(p *serviceProblems) {
		if p.reported = nil; err != nil {
			problem := r.problem(k, config.Warning, err.Error())
			problem.Code = code.UnreadableSource
			p.reported = []config.Problem{problem}
		}
	})
}

// editProblems calls edit with the Problems of a service, and appends the events for the
// difference.
func (r *Registry) editProblems(out mesh.Batch, k adapter.ServiceKey, edit func(*serviceProblems)) mesh.Batch {
	p := r.problems[k]
	if p == nil {
		p = new(serviceProblems)
		r.problems[k] = p
	}
	edit(p)
	all := slices.Concat(p.reported, p.conversion)
	if len(all) == 0 {
		delete(r.problems, k)
	}
	return r.emitter.Emit(out, k, all)
}

// problem returns a Problem of a service's ServiceEntry, or without an object for the zero key. A
// long reason is cut. Invalid UTF-8 is replaced.
func (r *Registry) problem(k adapter.ServiceKey, severity config.Severity, reason string) config.Problem {
	p := config.Problem{Code: code.SchemaValidationError, Origin: r.Name(),
		Reason: truncate.Text(strings.ToValidUTF8(reason, "?"), maxReason), Severity: severity}
	if severity == config.Warning {
		p.Code = code.SchemaWarning
	}
	if k != (adapter.ServiceKey{}) {
		p.Key = r.objectKey(k)
	}
	return p
}

// objectKey returns the key of a service's first ServiceEntry.
func (r *Registry) objectKey(k adapter.ServiceKey) config.Key {
	return config.Key{Kind: api.ServiceEntry, Namespace: k.Namespace, Name: adapter.EntryName(r.o.Platform, k.Name)}
}

// maxReason limits the text of a Problem, which may contain data of the platform.
const maxReason = 500

// observe sets the metrics of the platform from its status. It does nothing without metrics.
// Failures are added as the difference to the last call.
func (r *Registry) observe(s adapter.Status) {
	m := r.o.Metrics
	if m == nil {
		return
	}
	synced := 0.0
	if s.Synced {
		synced = 1
	}
	name := r.o.Platform
	m.Synced.WithLabelValues(name).Set(synced)
	if !s.LastSync.IsZero() {
		m.LastSync.WithLabelValues(name).Set(float64(s.LastSync.Unix()))
	}
	m.Failures.WithLabelValues(name).Add(float64(s.Failures - r.failures))
	r.failures = s.Failures
	m.Services.WithLabelValues(name).Set(float64(s.Services))
	m.Instances.WithLabelValues(name).Set(float64(s.Instances))
	m.Held.WithLabelValues(name).Set(float64(s.Held))
	m.Problems.WithLabelValues(name).Set(float64(s.Problems))
}
