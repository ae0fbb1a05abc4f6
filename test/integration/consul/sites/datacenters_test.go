package sites

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

// TestDatacenters: the control plane of one datacenter reads another one, whose instances it
// reaches only through a gateway. While requests are counted, the other one's Consul server fails,
// the control plane starts without it, and the server returns.
func TestDatacenters(t *testing.T) {
	w := newWorld(t)
	east := w.addSite("east", 0)
	west := w.addSite("west", 1, east)
	west.startPlane()
	gateway := west.addGateway(50)
	atWest := west.addReviews("reviews-west", 51)
	west.register("reviews-west", atWest)
	east.startPlane("--consulOtherDatacenters", "west", "--networksConfig", w.networksFile("west", gateway))
	east.register("reviews-east", east.addReviews("reviews-east", 41))
	const all, onlyWest = "reviews.service.consul", "reviews.service.west.consul"
	client := east.addClient(40, all, onlyWest)
	w.cutOff(client, atWest)
	c := mesh.NewCaller(client)
	t.Cleanup(c.Close)
	w.await(c, onlyWest, "west")
	w.await(c, all, "east", "west")

	load := mesh.StartLoad(client, url(all), loadRate)
	west.kill()
	east.awaitState("west", readapi.RegistryStale)
	w.await(c, all, "east", "west")
	east.restartPlane()
	w.await(c, all, "east")
	east.awaitState("west", readapi.RegistryWaiting)
	west.launch()
	w.await(c, all, "east", "west")
	w.await(c, onlyWest, "west")
	east.awaitState("west", readapi.RegistrySynced)
	w.requireNone(load)
}
