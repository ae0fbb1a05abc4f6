package zookeeper

import (
	"context"
	"log/slog"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the value of --registries that selects this platform, and the provider of its services.
const Name = "ZooKeeper"

// Platform reports the services of ZooKeeper. It keeps its state between calls of Watch.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	tree     *tree
	// process is the generation for the Sink. It does not change, because tree decides what was
	// deregistered.
	process string
	// reported has the services that were reported, by the path of their node. A value is true if
	// the key has only a problem.
	reported map[string]map[adapter.ServiceKey]bool
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid or the CA file of the TLS
// settings is unusable. It opens no connection. If logger is nil, nothing is logged.
func New(s Settings, logger *slog.Logger) (*Platform, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.TLS {
		if _, err := s.TLSConfig(flagPrefix); err != nil {
			return nil, err
		}
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Platform{
		settings: s, logger: logger, tree: newTree(), process: adapter.NewGeneration(),
		reported: map[string]map[adapter.ServiceKey]bool{},
	}, nil
}

// Watch implements adapter.Platform. It blocks until the session ends, and returns the error. The
// session ends when it expires, authentication fails, there is no connection for the session
// timeout, a root may not be read, or ctx ends. A file of the settings that cannot be used is an
// error too. It closes the connection before it returns.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	q := newQueue(p.settings.SessionTimeout, cancel)
	defer q.close()
	c, err := p.settings.connect(ctx, p.logger, q.handle)
	if err != nil {
		cancel()
		return err
	}
	q.setLastError(c.lastError)
	s := &session{
		Platform: p, sink: sink, client: c, queue: q,
		nodes: map[string]node{}, outstanding: map[string]bool{}, changed: map[string]bool{},
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		<-ctx.Done() // ends reads that wait for an answer
		_ = recovery.Call(ctx, "close ZooKeeper session", func() error { c.close(); return nil }, "task")
	})
	return s.run(ctx)
}
