package ingress_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/recovery"
	"github.com/meshpilot/meshpilot/internal/registry"
	"github.com/meshpilot/meshpilot/internal/registry/conform"
	"github.com/meshpilot/meshpilot/internal/registry/ingress"
)

func TestPoisonedObjects(t *testing.T) {
	var batch mesh.Batch
	for _, e := range objects(t, webIngress, apiService, moreIngress, meshClass) {
		e.Source = "test"
		batch = append(batch, e)
	}
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter { return ingress.New(ingress.Options{Recovery: r}) }, batch)
}
