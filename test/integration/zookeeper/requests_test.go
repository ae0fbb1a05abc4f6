package zookeeper

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// TestNoRequestIsLost sends requests through a real Envoy to instances in ZooKeeper, while the server is
// killed, restarts with its data, and restarts without it.
func TestNoRequestIsLost(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	port := serving.FreePort(t)
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{
		"--registries=ZooKeeper", "--zookeeperServers=" + s.Address, "--zookeeperSessionTimeout=2s",
	}})
	e.Write("gateway.yaml", gatewayenv.EdgeYAML(port, "orders.service.zookeeper"))
	nodes := map[string]string{}
	for _, id := range []string{"a", "b"} {
		nodes[id] = instance("orders", id, "127.0.0.1", gatewayenv.StartBackend(t, id), "UP")
	}
	c := s.Client()
	register := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			c.Register("/services/orders/"+id, nodes[id])
		}
	}
	register("a", "b")
	address := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await := func(ids ...string) { t.Helper(); gatewayenv.AwaitAnswers(t, address, ids...) }
	awaitMetric := func(name string, want int) { t.Helper(); e.AwaitPlatformMetric("ZooKeeper", name, want) }
	await("a", "b")
	requireNoFailure := gatewayenv.StartLoad(t, address)

	s.Kill()
	awaitMetric("synced", 0)
	await("a", "b")
	s.Launch()
	awaitSession(t, c)
	awaitMetric("synced", 1)
	c.Deregister("/services/orders/a")
	await("b")
	register("a")
	await("a", "b")

	s.Kill()
	c.Close()
	s.DeleteData()
	awaitMetric("synced", 0)
	s.Launch()
	awaitMetric("synced", 1)
	await("a", "b") // neither is registered, which is a problem of the service
	awaitMetric("problems", 1)
	c = s.Client()
	register("a", "b")
	awaitMetric("problems", 0)
	c.Deregister("/services/orders/a")
	await("b")
	requireNoFailure()
}
