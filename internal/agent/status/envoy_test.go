package status

import (
	"context"
	"errors"
	"maps"
	"sync"
)

// fakeEnvoy is an Envoy whose responses the test sets. The zero value does not respond.
type fakeEnvoy struct {
	mu      sync.Mutex
	state   string
	stats   map[string]uint64
	metrics string
	query   string // of the last call of Prometheus
}

var errSilent = errors.New("connection refused")

func (f *fakeEnvoy) set(state string, stats map[string]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.stats = state, stats
}

func (f *fakeEnvoy) ServerState(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == "" {
		return "", errSilent
	}
	return f.state, nil
}

func (f *fakeEnvoy) Stats(context.Context, string) (map[string]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == "" {
		return nil, errSilent
	}
	return maps.Clone(f.stats), nil
}

func (f *fakeEnvoy) Prometheus(_ context.Context, query string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.query = query
	if f.metrics == "" {
		return nil, errSilent
	}
	return []byte(f.metrics), nil
}
