package nomad

import (
	"net/http/httptest"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// TestConformance runs the suite of platforms on a fake agent.
func TestConformance(t *testing.T) {
	f := newFakeAgent()
	f.token = ""
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	platform.RunConformance(t, platform.Conformance{
		Address: server.Listener.Addr().String(),
		Open: func(address string) adapter.Platform {
			settings := DefaultSettings()
			settings.Addresses = []string{"http://" + address}
			p, err := New(settings, nil, clock.System{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Register: func(service, id, address string) {
			f.edit(func() {
				f.register(registration{ID: id, ServiceName: service, Namespace: "default", Address: address}, typeRegistration)
			})
		},
		Deregister: func(_, id string) { f.remove(id, typeDeregistration) },
	})
}
