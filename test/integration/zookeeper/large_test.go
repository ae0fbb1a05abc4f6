package zookeeper

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// TestTenThousandInstances checks one service with ten thousand nodes.
func TestTenThousandInstances(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	c := s.Client()
	const first = "/services/orders/x0"
	c.Register(first, instance("orders", "x0", "198.18.0.0", 8080, "UP"))
	var creations []any
	for i := 1; i < platform.Large; i++ {
		id := fmt.Sprint("x", i)
		creations = append(creations, &zk.CreateRequest{
			Path: "/services/orders/" + id, Flags: zk.FlagEphemeral, Acl: zk.WorldACL(zk.PermAll),
			Data: []byte(instance("orders", id, fmt.Sprintf("198.18.%d.%d", i>>8, i&255), 8080, "UP")),
		})
	}
	for part := range slices.Chunk(creations, 1000) {
		if _, err := c.Multi(part...); err != nil {
			t.Fatal(err)
		}
	}
	settings := registry.DefaultSettings()
	settings.Servers = []string{s.Address}
	p, err := registry.New(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	platform.RequireLarge(t, p, func() { c.Deregister(first) })
}
