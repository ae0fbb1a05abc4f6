package ingress_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestPoisonedObjects(t *testing.T) {
	var batch mesh.Batch
	for _, e := range objects(t, webIngress, apiService, moreIngress, meshClass) {
		e.Source = "test"
		batch = append(batch, e)
	}
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter { return ingress.New(ingress.Options{Recovery: r}) }, batch)
}
