package cloudfoundry

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/test/support/nats"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestTenThousandInstances checks one route with ten thousand instances, which the emitter repeats.
func TestTenThousandInstances(t *testing.T) {
	nats.Require(t)
	const interval = 20 * time.Second
	s := nats.Start(t, nats.Options{})
	emitter := s.StartEmitter(interval)
	for i := range platform.Large {
		emitter.Register(fmt.Sprint("x", i), nats.Route{
			Host: fmt.Sprintf("198.18.%d.%d", i>>8, i&255), Port: 8080, URIs: []string{"web.test"}, App: "app",
			PrivateInstanceID: fmt.Sprint("x", i),
		})
	}
	o := cloudfoundry.DefaultSettings()
	o.Servers, o.RegisterInterval = []string{s.URL}, time.Second
	p, err := cloudfoundry.New(cloudfoundry.Options{Settings: o})
	if err != nil {
		t.Fatal(err)
	}
	platform.RequireLarge(t, p, func() { emitter.Unregister("x0") })
}
