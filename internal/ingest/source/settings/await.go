package settings

import (
	"context"
	"log/slog"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Limits of the backoff between attempts to read the mesh configuration at the start.
const (
	minLoadBackoff = 200 * time.Millisecond
	maxLoadBackoff = 10 * time.Second
)

// AwaitMeshConfig returns the mesh configuration for settings that take effect only at the start,
// as Load does. read returns the text of a key of a ConfigMap. On an error it logs each new text
// and retries with backoff. It returns the default configuration if ctx ends.
func (s *Source) AwaitMeshConfig(
	ctx context.Context,
	read func(ctx context.Context, name, key string) ([]byte, error),
	log *slog.Logger,
) *meshconfig.MeshConfig {
	backoff, logged := retry.NewBackoff(minLoadBackoff, maxLoadBackoff), ""
	for {
		m, err := s.Load(func(name, key string) ([]byte, error) { return read(ctx, name, key) })
		if err == nil {
			return m
		}
		if text := err.Error(); text != logged {
			logged = text
			log.Warn("the mesh configuration cannot be read yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return mesh.DefaultMeshConfig() // The control plane is stopping, so the value is not used.
		case <-time.After(backoff.NextBackOff()):
		}
	}
}
