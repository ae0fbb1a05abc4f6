package zookeeper

import (
	"testing"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// TestConformance runs the suite of platforms on a real server.
func TestConformance(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	c := s.Client()
	registered := map[string]bool{}
	platform.RunConformance(t, platform.Conformance{
		Address: s.Address,
		Open: func(address string) adapter.Platform {
			settings := registry.DefaultSettings()
			settings.Servers, settings.SessionTimeout = []string{address}, sessionTimeout
			p, err := registry.New(settings, nil)
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Register: func(service, id, address string) {
			node, content := "/services/"+service+"/"+id, instance(service, id, address, 8080, "UP")
			if registered[node] {
				c.Update(node, content)
				return
			}
			c.Register(node, content)
			registered[node] = true
		},
		Deregister: func(service, id string) {
			node := "/services/" + service + "/" + id
			c.Deregister(node)
			delete(registered, node)
		},
	})
}
