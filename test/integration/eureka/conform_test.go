package eureka

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/eureka"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/eureka"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestConformance runs the suite of platforms on a real server.
func TestConformance(t *testing.T) {
	eureka.Require(t)
	s := eureka.Start(t, eureka.Options{})
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	platform.RunConformance(t, platform.Conformance{
		Address: u.Host,
		Open: func(address string) adapter.Platform {
			settings := registry.DefaultSettings()
			settings.URLs, settings.Interval = []string{strings.Replace(s.URL, u.Host, address, 1)}, 200*time.Millisecond
			p, err := registry.New(settings, nil, clock.System{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Register:   func(service, id, address string) { s.Register(service, id, address, 8080, "UP", 3600) },
		Deregister: s.Deregister,
	})
}
