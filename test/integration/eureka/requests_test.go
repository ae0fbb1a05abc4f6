package eureka

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/eureka"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestNoRequestIsLost sends requests through a real Envoy to instances in Eureka, while they change and the
// server is killed and restarts, which it does without its instances.
func TestNoRequestIsLost(t *testing.T) {
	eureka.Require(t)
	s := eureka.Start(t, eureka.Options{})
	port := serving.FreePort(t)
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--registries=Eureka", "--eurekaServiceURLs=" + s.URL, "--eurekaInterval=1s"}})
	e.Write("gateway.yaml", gatewayenv.EdgeYAML(port, "orders.service.eureka"))
	ports := map[string]int{"a": gatewayenv.StartBackend(t, "a"), "b": gatewayenv.StartBackend(t, "b")}
	register := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			s.Register("ORDERS", id, "127.0.0.1", ports[id], "UP", 600)
		}
	}
	register("a", "b")
	address := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await := func(ids ...string) { t.Helper(); gatewayenv.AwaitAnswers(t, address, ids...) }
	awaitMetric := func(name string, want int) { t.Helper(); e.AwaitPlatformMetric("Eureka", name, want) }
	await("a", "b")
	requireNoFailure := gatewayenv.StartLoad(t, address)

	s.SetStatus("ORDERS", "a", "OUT_OF_SERVICE")
	await("b")
	s.SetStatus("ORDERS", "a", "UP")
	await("a", "b")
	s.Deregister("ORDERS", "a")
	await("b")
	register("a")
	await("a", "b")

	s.Kill()
	awaitMetric("synced", 0)
	await("a", "b")
	s.Launch()
	awaitMetric("synced", 1)
	await("a", "b") // neither is registered
	register("a", "b")
	awaitMetric("problems", 0)
	s.Deregister("ORDERS", "a")
	await("b")
	requireNoFailure()
}
