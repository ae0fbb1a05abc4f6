package eureka

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
	"github.com/meshpilot/meshpilot/test/support/eureka"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestTenThousandInstances checks one application with ten thousand instances.
func TestTenThousandInstances(t *testing.T) {
	eureka.Require(t)
	s := eureka.Start(t, eureka.Options{})
	for i := range platform.Large {
		s.Register("ORDERS", fmt.Sprint("x", i), fmt.Sprintf("198.18.%d.%d", i>>8, i&255), 8080, "UP", 3600)
	}
	settings := registry.DefaultSettings()
	settings.URLs, settings.Interval = []string{s.URL}, 200*time.Millisecond
	p, err := registry.New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	platform.RequireLarge(t, p, func() { s.Deregister("ORDERS", "x0") })
}
