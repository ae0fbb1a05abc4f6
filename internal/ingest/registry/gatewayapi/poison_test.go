package gatewayapi_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestPoisonedObjects(t *testing.T) {
	var batch mesh.Batch
	for _, e := range inputs(t, []byte(manyRoutes(3))) {
		e.Source = "test"
		batch = append(batch, e)
	}
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter {
		return gatewayapi.New(gatewayapi.Options{Recovery: r})
	}, batch)
}
