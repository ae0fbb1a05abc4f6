package cloudfoundry

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/nats"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestConformance runs the suite of platforms on a real server.
func TestConformance(t *testing.T) {
	nats.Require(t)
	s := nats.Start(t, nats.Options{})
	e := s.StartEmitter(interval / 2)
	registered := map[string]bool{}
	name := func(service, id string) string { return service + "/" + id }
	deregister := func(service, id string) {
		e.Unregister(name(service, id))
		delete(registered, name(service, id))
	}
	platform.RunConformance(t, platform.Conformance{
		Address: strings.TrimPrefix(s.URL, "nats://"),
		Open: func(address string) adapter.Platform {
			o := cloudfoundry.DefaultSettings()
			o.Servers, o.RegisterInterval = []string{"nats://" + address}, interval
			p, err := cloudfoundry.New(cloudfoundry.Options{Settings: o})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Register: func(service, id, address string) {
			if registered[name(service, id)] {
				deregister(service, id) // an address identifies a route
			}
			e.Register(name(service, id), instanceOf(service+".test", address))
			registered[name(service, id)] = true
		},
		Deregister: deregister,
	})
}
