package nomad

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the value of --registries that selects this platform, and the provider of its services.
const Name = "Nomad"

const (
	// deniedPause is the time between two attempts to read a namespace that the token may not read.
	deniedPause = 30 * time.Second
	// auditPause is the least time between two audits of a namespace. Nomad sends no event for some
	// transactions, although they remove registrations.
	auditPause = time.Minute
)

// Platform reports the services of Nomad. It keeps its state between calls of Watch.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	clock    clock.Clock
	agents   *retry.Addresses
	scopes   []*scope
	// generation is that of the servers' data. It is renewed when they may have lost some.
	generation string
	// streamTimeout is the client's; tests shorten it.
	streamTimeout time.Duration
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid or the CA file of the TLS
// settings is unusable. It opens no connection. If logger is nil, nothing is logged; c must not be
// nil.
func New(s Settings, logger *slog.Logger, c clock.Clock) (*Platform, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.newClient(s.Addresses[0]); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p := &Platform{
		settings: s, logger: logger, clock: c, agents: retry.NewAddresses(s.Addresses),
		generation: adapter.NewGeneration(), streamTimeout: streamTimeout,
	}
	for _, namespace := range s.Namespaces {
		p.scopes = append(p.scopes, &scope{namespace: namespace})
	}
	return p, nil
}

// Watch implements adapter.Platform. It reads all services, and then follows the events of all
// namespaces. It tries each address at most once until one has synced, beginning with the one after
// that of the last call. It returns an error if no agent can be read, if the stream of events ends,
// if the servers may have lost data, or when ctx ends.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	return p.agents.Try(ctx, func(address string) (synced bool, err error) {
		return p.watchAgent(ctx, address, sink)
	})
}

// watchAgent reads all services from one agent, one namespace after the other, and reports them to
// sink, then Synced; synced is set if it has. Afterwards it follows the events of all namespaces.
// Of a namespace that the token may no longer read it awaits the right. It returns the first error,
// which is never nil. Before Synced that is an error of the TLS files or of begin.
func (p *Platform) watchAgent(ctx context.Context, address string, sink adapter.Sink) (synced bool, err error) {
	c, err := p.settings.newClient(address)
	if err != nil {
		return false, err
	}
	defer c.close()
	c.timeout = p.streamTimeout
	for _, s := range p.scopes {
		if err := p.begin(ctx, c, s, sink); err != nil {
			return false, err
		}
	}
	if !slices.ContainsFunc(p.scopes, func(s *scope) bool { return s.denied }) {
		sink.Report(adapter.ServiceKey{}, nil)
	}
	sink.SyncedGeneration(p.generation)
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range p.scopes {
		group.Go(func() error {
			return recovery.Call(ctx, "platform", func() error {
				if s.denied {
					return p.awaitRights(ctx, c, s)
				}
				return p.follow(ctx, c, s, sink)
			}, "namespace", s.namespace)
		})
	}
	return true, group.Wait()
}

// begin reads a namespace and reports all of its services. If the servers may have lost data, it
// renews the generation. If the token may no longer read this namespace but another one, it sets
// s.denied and returns nil. The services then stay, each with a problem, and the platform has one
// too. Otherwise begin returns an error if it cannot read the namespace.
func (p *Platform) begin(ctx context.Context, c *client, s *scope, sink adapter.Sink) error {
	next, err := read(ctx, c, s.namespace)
	if s.denied = errors.Is(err, errDenied) && s.last != nil && p.isAnyReadable(s); s.denied {
		sink.Report(adapter.ServiceKey{}, err)
		for name := range s.last.services {
			sink.Report(p.settings.key(s.namespace, name), err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.mayHaveLost(next); err != nil {
		p.logger.Warn("the Nomad servers may have lost data; services that they do not list stay in use", "reason", err)
		p.generation = adapter.NewGeneration()
	}
	s.last = next
	for name := range next.services {
		p.report(sink, s, name)
	}
	return nil
}

// isAnyReadable reports whether the token may read another namespace than that of s, as far as is
// known. A token that may read none is a failure of the platform, not of its namespaces.
func (p *Platform) isAnyReadable(s *scope) bool {
	return slices.ContainsFunc(p.scopes, func(o *scope) bool { return o != s && !o.denied })
}

// follow reads each service of a namespace again when an event is about it. It reads everything
// again when the first line of events has arrived, because changes before the request for events
// have none, and if an audit finds a change without an event. It always returns an error.
func (p *Platform) follow(ctx context.Context, c *client, s *scope, sink adapter.Sink) error {
	var audited time.Time // zero before the first line
	return c.stream(ctx, s.namespace, func(line []byte) error {
		events, err := parseEvents(line)
		if err != nil {
			return err
		}
		if names := s.last.changed(events); len(names) > 0 {
			if err := s.last.readServices(ctx, c, s.namespace, names); err != nil {
				return err
			}
			for _, name := range names {
				p.report(sink, s, name)
			}
		}
		if now := p.clock.Now(); now.Sub(audited) >= auditPause {
			first := audited.IsZero()
			audited = now
			return p.audit(ctx, c, s, sink, first)
		}
		return nil
	})
}

// audit reads a namespace again if the index of its services changed without an event, or if force
// is true. It then reports all its services and deletes the ones that no longer exist. It returns
// an error if a request fails, or, without a change, if the servers may have lost data.
func (p *Platform) audit(ctx context.Context, c *client, s *scope, sink adapter.Sink, force bool) error {
	if !force {
		_, index, err := c.get(ctx, pathServices, s.namespace)
		if err != nil || index == s.last.highest {
			return err
		}
	}
	next, err := read(ctx, c, s.namespace)
	if err != nil {
		return err
	}
	if err := s.mayHaveLost(next); err != nil {
		return fmt.Errorf("the Nomad servers may have lost data: %w", err)
	}
	old := s.last.services
	s.last = next
	for name := range old {
		if next.services[name] == nil {
			sink.Delete(p.settings.key(s.namespace, name))
		}
	}
	for name := range next.services {
		p.report(sink, s, name)
	}
	return nil
}

// awaitRights asks the agent for the namespace every deniedPause while the token may not read it,
// and never returns nil. It returns an error as soon as the token may read the namespace again, so
// that everything is read. It returns other errors of the agent, and that of ctx, as well.
func (p *Platform) awaitRights(ctx context.Context, c *client, s *scope) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.clock.After(deniedPause):
		}
		switch _, _, err := c.get(ctx, pathServices, s.namespace); {
		case err == nil:
			return fmt.Errorf("the token may read namespace %s again; reading all services", s.namespace)
		case !errors.Is(err, errDenied):
			return err
		}
	}
}

// report reports a service that s.last has: its instances, that it cannot be read, or its deletion
// if it has no instances. If only a part of the service can be converted, that part is set, and the
// problem reported. If no part can be converted, only the problem is reported.
func (p *Platform) report(sink adapter.Sink, s *scope, name string) {
	key, known := p.settings.key(s.namespace, name), s.last.services[name]
	switch {
	case known.unreadable != nil:
		sink.Report(key, known.unreadable)
		return
	case len(known.instances) == 0:
		sink.Delete(key)
		return
	}
	service, err := p.settings.convert(key, known.instances)
	if service != nil {
		sink.Set(*service)
	}
	if service == nil || err != nil {
		sink.Report(key, err)
	}
}
