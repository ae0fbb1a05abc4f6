package zookeeper

import (
	"slices"
	"testing"

	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/zookeeper"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// TestEnsemble reads an ensemble of three servers while its leader is killed, and while no majority is left.
// Nothing is removed, and changes are seen as soon as there is a leader again.
func TestEnsemble(t *testing.T) {
	zookeeper.Require(t)
	servers := zookeeper.StartEnsemble(t, 3)
	n := slices.IndexFunc(servers, (*zookeeper.Server).Leads)
	if n < 0 {
		t.Fatal("no server leads the ensemble")
	}
	leader, other := servers[n], servers[(n+1)%3]
	client := func(s *zookeeper.Server) *zookeeper.Client {
		c := s.Client()
		awaitSession(t, c)
		return c
	}
	c := client(other)
	c.Register("/services/orders/a", instance("orders", "a", "192.0.2.1", 8080, "UP"))
	f := follow(t, leader, func(o *registry.Settings) {
		o.Servers = nil
		for _, s := range servers {
			o.Servers = append(o.Servers, s.Address)
		}
	})
	f.Await("80.orders.service.zookeeper: 192.0.2.1:8080")
	unchanged := f.Mark()
	leader.Kill()
	awaitSession(t, c) // the others have elected a leader
	unchanged()
	c.Register("/services/orders/b", instance("orders", "b", "192.0.2.2", 8080, "UP"))
	const both = "80.orders.service.zookeeper: 192.0.2.1:8080 192.0.2.2:8080"
	f.Await(both)
	f.AwaitProblem("")
	unchanged = f.Mark()
	servers[(n+2)%3].Kill() // one of three is no majority
	f.AwaitProblem("no server answered")
	servers[(n+2)%3].Launch()
	f.AwaitProblem("")
	awaitSession(t, c)
	unchanged()
	c.Deregister("/services/orders/b")
	f.Await("80.orders.service.zookeeper: 192.0.2.1:8080")
}
