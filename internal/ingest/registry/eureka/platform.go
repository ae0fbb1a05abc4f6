package eureka

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the value of --registries that selects this platform, and the provider of its services.
const Name = "Eureka"

// Platform reports the services of Eureka servers. It keeps its state between calls of Watch.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	clock    clock.Clock
	table    *table
	reported map[adapter.ServiceKey]bool
	// generation is the table's generation: the table decides which instances were deregistered.
	generation string
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid or the CA file of the TLS
// settings is unusable. It opens no connection. If logger is nil, nothing is logged; c must not be
// nil.
func New(s Settings, logger *slog.Logger, c clock.Clock) (*Platform, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.newClient(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Platform{
		settings: s, logger: logger, clock: c, table: newTable(), reported: map[adapter.ServiceKey]bool{},
		generation: adapter.NewGeneration(),
	}, nil
}

// Watch implements adapter.Platform. It reports all instances, then Synced, and then the changes
// after each interval. It returns an error if no server answers, if an answer is malformed, or when
// ctx ends. The known instances stay in the table for the next call.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	c, err := p.settings.newClient()
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := p.readAll(ctx, c); err != nil {
		return err
	}
	p.report(sink, true)
	sink.SyncedGeneration(p.generation)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.clock.After(p.settings.Interval):
		}
		changed, err := p.readChanges(ctx, c)
		if err != nil {
			return err
		}
		maps.Copy(changed, p.table.expire(p.clock.Now()))
		if len(changed) > 0 {
			p.report(sink, false)
		}
	}
}

// readAll reads all instances into the table, which may also remove held ones (applyList). It
// returns the names of the applications whose instances changed. It returns an error, and changes
// nothing, if no server answers or the answer is malformed.
func (p *Platform) readAll(ctx context.Context, c *client) (changed map[string]bool, err error) {
	body, _, err := c.get(ctx, pathApps)
	if err != nil {
		return nil, err
	}
	a, err := parse(body)
	if err != nil {
		return nil, err
	}
	return p.table.applyList(a.instances, p.clock.Now()), nil
}

// readChanges applies the changes of the last minutes to the table, and returns the names of the
// applications whose instances changed. It reads all instances if the server does not serve
// changes, or if another server answers. It also does so if the resulting hash code is not the
// server's: changes were missed, or the server has restarted. If that fails, it returns the error,
// and the changes stay applied.
func (p *Platform) readChanges(ctx context.Context, c *client) (changed map[string]bool, err error) {
	body, other, err := c.get(ctx, pathDelta)
	switch {
	case errors.Is(err, errNoDelta):
		return p.readAll(ctx, c)
	case err != nil:
		return nil, err
	}
	a, err := parse(body)
	if err != nil {
		return nil, err
	}
	changed = p.table.applyDelta(a.instances)
	if hash := p.table.hash(); other || hash != a.hash {
		p.logger.Debug("the changes of Eureka are incomplete; reading all instances", "hash", hash, "server", a.hash)
		more, err := p.readAll(ctx, c)
		if err != nil {
			return nil, err
		}
		maps.Copy(changed, more)
	}
	return changed, nil
}

// report reports all services and their problems, and deletes services that no longer have an
// instance. If first is true, it deletes none: the sink decides that itself at Synced. The sink
// ignores services that did not change.
func (p *Platform) report(sink adapter.Sink, first bool) {
	services, problems := p.settings.services(p.table)
	for _, key := range slices.SortedFunc(maps.Keys(services), adapter.ServiceKey.Compare) {
		sink.Set(services[key])
		if err := problems[key]; err != nil {
			sink.Report(key, err)
		}
	}
	for key := range p.reported {
		if _, exists := services[key]; !exists && !first {
			sink.Delete(key)
		}
	}
	p.reported = map[adapter.ServiceKey]bool{}
	for key := range services {
		p.reported[key] = true
	}
}
