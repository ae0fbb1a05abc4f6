package sites

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// peer makes the site import the service reviews, which the other one exports. In neither site
// Consul has sidecars or gateways of its own.
func (s *site) peer(with *site) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	token, _, err := with.client.Peerings().GenerateToken(ctx, api.PeeringGenerateTokenRequest{PeerName: s.name}, nil)
	s.must(err)
	serving.Eventually(s.t, patience, "the peering is established", func() error {
		_, _, err := s.client.Peerings().Establish(ctx, api.PeeringEstablishRequest{PeerName: with.name, PeeringToken: token.PeeringToken}, nil)
		return err
	})
	_, _, err = with.client.ConfigEntries().Set(&api.ExportedServicesConfigEntry{
		Name: "default", Services: []api.ExportedService{{Name: "reviews", Consumers: []api.ServiceConsumer{{Peer: s.name}}}},
	}, nil)
	s.must(err)
}

// TestPeers: a control plane reads the services that a cluster peer exports, whose instances it
// reaches only through a gateway. While requests are counted, instances of the peer change, its
// Consul server fails, and the control plane starts meanwhile.
func TestPeers(t *testing.T) {
	w := newWorld(t)
	east, west := w.addSite("east", 0), w.addSite("west", 1)
	west.startPlane()
	gateway := west.addGateway(50)
	first, second := west.addReviews("reviews-west-1", 51), west.addReviews("reviews-west-2", 52)
	west.register("reviews-west-1", first)
	east.peer(west)
	east.startPlane("--consulPeers", "west", "--networksConfig", w.networksFile("west", gateway))
	east.register("reviews-east", east.addReviews("reviews-east", 41))
	const home, imported = "reviews.service.consul", "reviews.service.west.peer.consul"
	client := east.addClient(40, home, imported)
	w.cutOff(client, first, second)
	c := mesh.NewCaller(client)
	t.Cleanup(c.Close)
	w.await(c, imported, "west-1")
	w.await(c, home, "east")

	load := mesh.StartLoad(client, url(imported), loadRate)
	west.register("reviews-west-2", second)
	w.await(c, imported, "west-1", "west-2")
	west.deregister("reviews-west-1")
	w.await(c, imported, "west-2")
	west.kill()
	east.awaitState("west.peer", readapi.RegistryStale)
	east.restartPlane() // east's Consul server has the last imported state
	w.await(c, imported, "west-2")
	west.launch()
	east.awaitState("west.peer", readapi.RegistrySynced)
	west.register("reviews-west-1", first)
	w.await(c, imported, "west-1", "west-2")
	w.requireNone(load)

	_, err := west.client.ConfigEntries().Delete(api.ExportedServices, "default", nil)
	w.must(err)
	serving.Eventually(t, patience, "the service is no longer imported", func() error {
		if a := c.Get(t.Context(), url(imported)); a.Err != nil || a.Status == http.StatusOK {
			return fmt.Errorf("answer %s", a)
		}
		return nil
	})
	w.await(c, home, "east")
}
